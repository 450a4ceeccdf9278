"""``envlab compare``: runs of any library over seeds, as a table and a picture.

Begin with :mod:`envlab.run.compare.command`. ``results`` reads runs, ``groups`` joins those that
differ in their seed and has the table, ``statistics`` means and intervals over seeds (Agarwal et
al., arXiv 2108.13264), ``picture`` shows them. ``envlab evidence`` uses the same parts.
"""
