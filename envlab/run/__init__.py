"""The run directory: what a training writes, and all that reads it afterwards.

Begin with :mod:`envlab.run.directory`: rank 0 chooses one, holds its lock, and keeps the status
in its ``manifest``, ``run.json``. ``event_file`` writes curves, ``checkpoints`` the folder of
that name, ``records`` also what play measured.

Readers: ``find`` resolves ``--checkpoint`` and ``--load_run``, ``pretrained`` policies that are not
runs, ``old_states`` checkpoints of earlier versions, ``packing`` makes a policy to publish,
``commands`` the lines to paste. :class:`envlab.run.training_run.TrainingRun` is a run in Python,
and :mod:`envlab.run.compare` compares several.
"""
