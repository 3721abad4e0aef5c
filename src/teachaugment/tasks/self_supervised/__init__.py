"""Features without labels: two views of an image must be told to be the same."""

LEAST_SPREAD = 0.2  # of the outputs, 1 in all directions alike: below it a network has collapsed
