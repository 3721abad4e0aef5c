"""``teachaugment report``: what a run did and learned, on one page that needs no network to be read."""
