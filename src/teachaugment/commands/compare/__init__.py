"""``teachaugment compare``: strategies under one protocol, paired over seeds.

``plan`` makes the runs, ``runner`` trains them, each in a process of its own, ``rows`` keeps what the finished ones
leave, one JSON line each; ``statistics``, ``report`` and ``picture`` show it. ``comparisons`` has those of the paper.
"""
