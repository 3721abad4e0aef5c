"""``teachaugment bench``: what training with TeachAugment costs on this machine, measured.

One file per thing measured (training, augmentation, color, scaling, inputs, options, startup), each a function from a
plan to plain data; ``targets`` compares, ``tables`` shows. Only ``command`` and ``plan`` are imported before that.
"""
