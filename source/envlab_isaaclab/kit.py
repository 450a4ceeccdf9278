"""The names of Kit's that Isaac Lab really uses: settings, timeline, cloner, views of PhysX.

Everything else of ``omni``, ``carb``, ``isaacsim`` and ``pxr`` is inert
(:mod:`envlab_isaaclab.inert`).
"""

from __future__ import annotations

import enum
import itertools
import logging
import types
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from envlab_isaaclab import stage, views
from envlab_isaaclab.inert import InertModule
from envlab_isaaclab.usd_geometry import Camera, Joint, Mesh, Xformable

NUCLEUS = "nucleus:"
"""Where assets of Nvidia's server lie unless ``--nucleus FOLDER`` says."""
ISAAC_SIM_VERSION = "5.1.0"
"""The release whose behaviour Isaac Lab's files expect of what is below them."""


class _Settings:
    """Kit's settings: what was set, and no defaults but the folder of assets."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {"/persistent/isaac/asset_root/cloud": NUCLEUS}

    def get(self, name: str) -> Any:
        """Return a setting, None if it was not set."""
        return self.values.get(name)

    def set(self, name: str, value: Any) -> None:
        """Change a setting."""
        self.values[name] = value

    get_as_bool = get_as_int = get_as_float = get_as_string = get
    set_bool = set_int = set_float = set_string = set_default = set


SETTINGS = _Settings()


class _Subscription:
    """A function that waits for an event."""

    def __init__(self, waiting: list[Any], entry: Any) -> None:
        self._waiting, self._entry = waiting, entry

    def unsubscribe(self) -> None:
        """Wait no longer."""
        if self._entry in self._waiting:
            self._waiting.remove(self._entry)


class TimelineEventType(enum.IntEnum):
    """What happens to the timeline."""

    PLAY, PAUSE, STOP = range(3)


class _Timeline:
    """Calls what waits for the simulation to start or stop, by order and then by age."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, int, Callable[[Any], None]]] = []
        self._ages = itertools.count()

    def get_timeline_event_stream(self) -> _Timeline:
        """Return itself."""
        return self

    def create_subscription_to_pop_by_type(
        self, kind: int, function: Callable[[Any], None], order: int = 0, **keywords: Any
    ) -> _Subscription:
        """Let a function be called with events of a kind."""
        entry = (order, next(self._ages), int(kind), function)
        self._waiting.append(entry)
        return _Subscription(self._waiting, entry)

    def tell(self, kind: TimelineEventType) -> None:
        """Call what waits for an event."""
        for _, _, wanted, function in sorted(self._waiting, key=lambda entry: entry[:2]):
            if wanted == kind:
                function(None)

    def is_playing(self) -> bool:
        """Return True: a script only steps a simulation that runs."""
        return True

    def is_stopped(self) -> bool:
        """Return False."""
        return False


TIMELINE = _Timeline()


class SimulationManager:
    """Where assets and sensors find the running simulation."""

    _ids = itertools.count(1)

    @classmethod
    def get_physics_sim_view(cls) -> views.SimulationView:
        """Return the view of the running simulation."""
        return views.simulation_view()

    @classmethod
    def get_backend(cls) -> str:
        """Return the kind of arrays."""
        return "torch"

    @classmethod
    def get_physics_sim_device(cls) -> str:
        """Return the device of tensors."""
        return str(views.simulation_view().device)

    @classmethod
    def register_callback(cls, *arguments: Any, **keywords: Any) -> int:
        """Return a number; prims are not deleted while a simulation runs."""
        return next(cls._ids)

    @classmethod
    def deregister_callback(cls, number: int) -> None:
        """Forget a number."""

    @classmethod
    def assets_loading(cls) -> bool:
        """Return False: assets are read at once."""
        return False


class GridCloner:
    """Places environments on a square grid, row by row, around the world's origin."""

    def __init__(self, spacing: float = 1.0, *arguments: Any, **keywords: Any) -> None:
        self._spacing = spacing

    def define_base_env(self, path: str) -> None:
        """Make the prim above the environments."""
        stage.current().define(path)

    def generate_paths(self, root: str, count: int) -> list[str]:
        """Return the paths of environments."""
        return [f"{root}_{number}" for number in range(count)]

    def clone(
        self, source_prim_path: str, prim_paths: Sequence[str], *arguments: Any, **keywords: Any
    ) -> np.ndarray:
        """Repeat environment 0; return the origins, in m, ``(num_envs, 3)``."""
        count = len(prim_paths)
        num_rows = int(np.ceil(count / int(np.sqrt(count))))
        num_columns = int(np.ceil(count / num_rows))
        row, column = np.divmod(np.arange(count), num_columns)
        origins = np.zeros((count, 3))
        origins[:, 0] = -(row - (num_rows - 1) / 2) * self._spacing
        origins[:, 1] = (column - (num_columns - 1) / 2) * self._spacing
        stage.current().repeat(count, origins)
        return origins

    def replicate_physics(self, *arguments: Any, **keywords: Any) -> None:
        """Do nothing: all environments are one model."""

    def filter_collisions(self, *arguments: Any, **keywords: Any) -> None:
        """Do nothing: environments are simulated apart."""


class _Float3(tuple[float, ...]):
    """Three numbers."""

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("x", "y", "z")

    def __new__(cls, *values: float) -> _Float3:
        return super().__new__(cls, values)


def _log(level: int) -> Callable[[str], None]:
    def tell(message: str) -> None:
        logging.getLogger("carb").log(level, "%s", message)

    return tell


def _module(name: str, **names: Any) -> types.ModuleType:
    made = InertModule(name)
    vars(made).update(names)
    return made


def modules() -> dict[str, types.ModuleType]:
    """Return the modules that are not inert throughout."""
    version = (ISAAC_SIM_VERSION, "", *ISAAC_SIM_VERSION.split("."), "", "", "")
    physx = {
        name: getattr(views, name)
        for name in (
            *("ArticulationView", "RigidBodyView", "RigidContactView", "SimulationView"),
            "create_simulation_view",
        )
    }
    return {
        "carb": _module(
            "carb",
            Float3=_Float3,
            log_info=_log(logging.DEBUG),
            log_warn=_log(logging.WARNING),
            log_error=_log(logging.ERROR),
        ),
        "carb.settings": _module("carb.settings", get_settings=lambda: SETTINGS),
        "omni.timeline": _module(
            "omni.timeline",
            get_timeline_interface=lambda: TIMELINE,
            TimelineEventType=TimelineEventType,
        ),
        "omni.usd": _module("omni.usd", get_world_transform_matrix=lambda prim: np.eye(4)),
        "omni.physics.tensors": _module("omni.physics.tensors", **physx),
        "omni.physics.tensors.api": _module("omni.physics.tensors.api", **physx),
        "omni.physics.tensors.impl.api": _module("omni.physics.tensors.impl.api", **physx),
        "isaacsim.core.cloner": _module(
            "isaacsim.core.cloner", GridCloner=GridCloner, Cloner=GridCloner
        ),
        "isaacsim.core.simulation_manager": _module(
            "isaacsim.core.simulation_manager", SimulationManager=SimulationManager
        ),
        "isaacsim.core.version": _module("isaacsim.core.version", get_version=lambda: version),
        "pxr.UsdGeom": _module("pxr.UsdGeom", Camera=Camera, Mesh=Mesh, Xformable=Xformable),
        "pxr.UsdPhysics": _module("pxr.UsdPhysics", Joint=Joint),
    }
