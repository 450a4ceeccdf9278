"""``envlab doctor``: the abilities and problems of a machine, or of a launch's ranks.

Begin with :mod:`envlab.doctor.command`. A check is a function of ``child`` that yields facts;
``probe`` runs each in a process of its own with a deadline, since drivers hang and libraries crash;
``report`` prints what was found, and what to do. On several processes, ``ranks`` gathers and
compares each node's report, and ``collectives`` measures what lies between them.
"""
