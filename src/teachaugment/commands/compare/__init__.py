"""``teachaugment compare``: strategies under one protocol, paired over seeds.

``plan`` makes the runs and ``comparisons`` has those of the paper; ``runner`` trains them, each in its own process, and
``display`` says how far they are. ``rows`` keeps what the finished ones leave, one JSON line each (``old_rows`` reads
those of version 0.1); ``statistics`` and ``summary`` say what it means, ``report`` and ``picture`` show it.
"""
