"""From a command line to the training loop, and from a run to play and export.

Begin with :mod:`envlab.training.launch`, which is a training from top to bottom, and
:mod:`envlab.training.loop`; docs/plan.md and docs/loop.md walk through both.

- Words: ``flags`` is the table of flags, ``arguments`` reads them before torch is loaded, ``plan``
  composes the frozen :class:`~envlab.training.plan.RunPlan`, ``inputs`` finds files and refuses
  what contradicts itself, ``dry_run`` prints the plan.
- Beginning: ``rank`` joins the others, ``start`` decides between new, resumed and restarted,
  ``preparation`` makes environments and learner, ``continuation`` and ``opening`` restore them.
- Iterations: ``loop``, ``metrics``, ``saver``, ``agreement``; ``averaging`` and ``overlap`` are
  other ways for ranks to learn; ``curves``, ``video`` and ``viewing`` show what happens.
- Afterwards: ``play`` with ``evaluation``, ``export`` with ``deployment``, ``validate``.

A library implements :class:`envlab.learner.Learner` and imports nothing of this room.
"""
