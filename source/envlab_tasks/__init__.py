"""The tasks: one folder a family, one folder a task. Importing this package registers them all.

A family's ``__init__`` holds nothing but the table of its tasks, so that this costs milliseconds.

Differs from Isaac Lab 2.3.2:

- The physics is MuJoCo's, not PhysX's: contacts, friction and joint limits are softer.
- Joints, and with them observations and actions, are ordered depth first; Isaac Lab orders them
  breadth first. ``envlab.envs.joint_order`` permutes policies and data sets.
- Joint velocities have no limits, because MuJoCo has none. Isaac Lab's 100 rad/s of Humanoid are
  out of reach (random actions: 64 rad/s); the limits of the other robots are in their USD files.
- A material has one coefficient of friction, drawn between Isaac Lab's static and dynamic
  coefficients. It is drawn once for each robot; Isaac Lab draws it for each shape.
- Where two shapes touch, the larger coefficient counts, or that of the shape with the higher
  priority in the MJCF; PhysX takes their average or product.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    if _module.ispkg:
        importlib.import_module(_module.name)
