"""Ways to augment, one object each."""
