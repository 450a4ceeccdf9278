"""``envlab compare``: runs of any library over seeds, as a table and a picture.

Begin with :mod:`envlab.run.compare.command`. ``results`` and ``events`` read runs, ``groups`` joins
those that differ in their seed, ``statistics`` has means and intervals over seeds (Agarwal et al.,
arXiv 2108.13264), ``table`` and ``picture`` show them. ``envlab evidence`` uses the same parts.
"""
