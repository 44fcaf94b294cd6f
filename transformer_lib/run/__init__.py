"""What runs the model: seals, checkpoints, many processes, quantization, the translator, the command line."""
