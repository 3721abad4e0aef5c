"""One class for each pixel."""
