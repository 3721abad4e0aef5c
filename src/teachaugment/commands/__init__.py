"""One file for each command of teachaugment."""
