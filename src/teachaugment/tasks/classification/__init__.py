"""One class for each image."""
