"""``teachaugment predict``: what a run's network says about images."""
