"""Training on several machines by ssh or a scheduler: set up, launch, watch, command and stop.

Begin with ``launch``, which starts one training on all hosts or on none: ``hosts`` are named by
flags or a file, ``preflight`` checks them, ``snapshot`` brings the working tree, ``node_script`` is
what runs there, ``ssh`` carries it. ``state`` remembers launches for ``attach``, ``status``,
``command`` and ``kill``. ``slurm``, ``trainjob`` (Kubeflow) and ``sky`` (SkyPilot) write jobs for
schedulers, whose common part is ``scheduler``. docs/cluster.md has the commands.
"""
