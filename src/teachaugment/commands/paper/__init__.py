"""``teachaugment paper``: the paper's tables and figures, measured, each beside the paper's numbers.

``items.yaml`` has what there is to show and ``items`` reads it; ``plan`` makes runs of it, those of ``compare``, and
knows which are missing; ``training`` trains them and keeps a JSON line of each. ``judge`` says whether the paper's
order and claims hold, ``figures`` draws what runs have learned, ``sections`` and ``page`` show it all.
"""
