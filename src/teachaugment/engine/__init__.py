"""A run: from settings to objects, steps, epochs, checkpoints and what is left at the end."""
