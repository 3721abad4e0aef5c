"""Features without labels: two views of an image must be told to be the same."""
