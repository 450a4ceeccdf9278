"""The tasks: one folder a family, one folder a task. Importing this package registers them all.

A task's ``__init__`` holds nothing but its registration, so that this costs milliseconds.

Differs from Isaac Lab 2.3.2:

- The physics is MuJoCo's, not PhysX's: contacts, friction and joint limits are softer.
- Joints, and with them observations and actions, are ordered depth first, there breadth first:
  ``envlab.envs.joint_order`` permutes policies and data sets.
- Joint velocities have no limits, because MuJoCo has none. Humanoid's 100 rad/s there are out of
  reach (random actions: 64 rad/s); the other robots' limits are those of their USD files.
- Joint accelerations are those of the last physics step, there differences of velocities.
- A material has one coefficient of friction, drawn between the static and the dynamic one there.
"""

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    if _module.ispkg:
        importlib.import_module(_module.name)
