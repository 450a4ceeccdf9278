"""Isaac Lab's projects on MuJoCo: the user's own Isaac Lab 2.3, without Isaac Sim.

``python -m envlab_isaaclab SCRIPT ...`` runs a script in which Isaac Lab's Python files are the
user's own, unchanged, and everything below them is ours: Kit's modules are inert
(:mod:`envlab_isaaclab.kit`), the stage keeps what is spawned (:mod:`envlab_isaaclab.stage`), and
PhysX's tensor views read and write a simulation of :mod:`envlab.sim`
(:mod:`envlab_isaaclab.views`). Nothing of Isaac Lab is part of this package. See
docs/from_isaac_lab.md.
"""
