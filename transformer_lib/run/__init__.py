"""What runs the model: seals, checkpoints, many processes, 8 bits, the translator, the command line."""
