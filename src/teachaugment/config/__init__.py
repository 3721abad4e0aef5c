"""The settings of a run: what there is, where they come from, and the flags that set them."""
