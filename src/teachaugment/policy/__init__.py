"""A learned augmenter, frozen: saved, loaded, applied, described."""
