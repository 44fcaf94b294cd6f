"""What makes the site, the course and the measurements; installed for development only."""
