"""``teachaugment export``: what a run has learned, as files to take along."""
