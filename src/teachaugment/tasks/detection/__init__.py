"""Boxes around things, each with a class."""
