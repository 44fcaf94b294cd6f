"""What runs the model: checkpoints, many processes, 8 bits, the translator, the command line."""
