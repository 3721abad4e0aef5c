"""Augmenters that the paper's is compared with."""
