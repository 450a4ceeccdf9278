"""Physics behind one contract, and the pictures and graphs that go with it.

Begin with :mod:`envlab.sim.simulation`: tasks see a :class:`~envlab.sim.simulation.Simulation`,
whose fields have MuJoCo's names, and never which engine is behind it.

- Engines: ``mujoco_backend`` on a CPU, ``warp_backend`` on a GPU, ``analytic_backend`` for systems
  without contacts, with closed forms in ``_analytic_*``.
- Recording: ``recording`` repeats a step as graphs, ``recordable`` finds what a graph would not
  repeat, and stands in for a GPU's graphs, ``compiled`` fuses a recorded step on a CPU.
- Pictures: ``pictures`` draws all environments on a CPU by the functions of ``_picture_*``,
  ``_warp_pictures`` on a GPU; ``augmentation`` changes colours; ``opengl`` is for videos.
"""
