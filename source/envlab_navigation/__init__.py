"""Visual navigation: procedural houses, cameras, geodesic distances, PointNav and ObjectNav.

A house is a function of its split and index, made of walls and of upright boxes, cylinders and
spheres, without any download. Cameras and agents are Warp kernels, from one source for CPU and CUDA
(the extra ``nav``). docs/navigation.md shows what agents see.

- :mod:`.floor_plan`, :mod:`.furniture` and :mod:`.house` make houses.
- :mod:`.geodesics` measures distances to goals from everywhere.
- :mod:`.house_cache` and :mod:`.house_set` keep houses on disk and in memory.
- :mod:`.agents` moves agents, starts their episodes and computes their positions.
- :mod:`.camera` renders images, which :mod:`envlab.sim.augmentation` may change.
- :mod:`.nav_env` is the environment; :mod:`envlab_navigation.tasks` registers its tasks.
- :mod:`.ddppo` trains agents in it, and in any other environment.
"""

from __future__ import annotations

from envlab.errors import SimulationError


def missing_extra(error: ModuleNotFoundError) -> SimulationError:
    """Return the error to raise when a package of the extra ``nav`` cannot be imported."""
    return SimulationError(
        f"Navigation needs the package {error.name!r}, which is not installed. "
        "Install it with: pip install -c constraints.txt -e '.[nav]'"
    )
