"""The contract between tasks and physics: one small class, MuJoCo's own field names.

Tasks read ``data`` and write ``ctrl``, wrenches, randomised ``params`` and, through ``reset``,
states. The backends are ``mujoco`` (CPU, :mod:`envlab.sim.mujoco_backend`) and ``mujoco_warp``
(NVIDIA GPU, or Warp's CPU device in tests, :mod:`envlab.sim.warp_backend`), and, for contact-free
systems, ``analytic`` (:mod:`envlab.sim.analytic_backend`).
"""

from __future__ import annotations

import copy
import functools
import importlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import mujoco
import numpy as np
import torch

from envlab.config import NonNegativeInt, PositiveFloat, PositiveInt
from envlab.errors import ConfigurationError, SimulationError, did_you_mean
from envlab.sim.cfg import Frames, OptionsCfg, PictureCfg, Pictures

BACKENDS = {
    "mujoco": "envlab.sim.mujoco_backend:MujocoSimulation",
    "mujoco_warp": "envlab.sim.warp_backend:WarpSimulation",
    "analytic": "envlab.sim.analytic_backend:AnalyticSimulation",
}
"""Backend name -> ``module:class``. Imported only when used, so Warp stays optional."""

STATE_FIELDS = ("qpos", "qvel")
"""Data fields that every simulation exposes without a declaration."""

ARENA_FIELDS = ("contact", "efc_J", "efc_force", "efc_pos", "efc_vel", "efc_aref")
"""Per-step lists of varying length. They have no fixed address, so no backend can bind them."""

ON_DEMAND_FIELDS = ("cacc", "cfrc_int", "cfrc_ext", "subtree_linvel", "subtree_angmom", "energy")
"""Fields that MuJoCo fills only when a sensor or flag needs them; else they hold zeros, or the
values of another simulation (in ``mujoco.batch``)."""


@dataclass(kw_only=True)
class SimulationCfg(OptionsCfg):
    """Physics settings of a task (``env.sim.*``), with MuJoCo's own options."""

    dt: PositiveFloat = 1.0 / 120.0
    """Physics time step, in seconds."""
    backend: str = "auto"
    """``mujoco``, ``mujoco_warp``, or ``auto``: ``mujoco`` on a CPU, else ``mujoco_warp``. Also
    ``analytic``, only for cart-poles and drones."""
    data_fields: tuple[str, ...] = ()
    """MjData fields that terms read, except ``qpos`` and ``qvel``: ``xpos``, ``sensordata``, ..."""
    substep_fields: tuple[str, ...] = ()
    """Those of ``data_fields`` that are kept for every physics step (``sim.substeps``); contact
    sensors add ``sensordata`` themselves."""
    model_fields: tuple[str, ...] = ()
    """MjModel fields that differ between environments (``body_mass``, ``opt.gravity``, ...), in
    addition to those that the task's events change."""
    num_threads: NonNegativeInt = 0
    """Threads of the ``mujoco`` backend; 0 divides the machine's cores by the local processes."""
    num_contacts_max: PositiveInt | None = None
    """Most contacts per environment in ``mujoco_warp`` (``nconmax``); null: its estimate."""
    num_constraints_max: PositiveInt | None = None
    """Most constraint rows per environment in ``mujoco_warp`` (``njmax``)."""
    allow_overflow: bool = False
    """Whether training continues when contacts do not fit for the second time; the first time is
    a warning."""
    deterministic: bool = False
    """Whether ``mujoco_warp`` on a GPU orders sums by atomic operations, at four times the time. It
    orders neither contacts nor constraints, so runs repeat bit by bit only if at most one
    constraint can be active (:func:`has_ordered_rows` in :mod:`envlab.sim.warp_fields`); on a CPU
    they always do."""
    graph: bool = True
    """Whether ``mujoco_warp`` records step and reset as graphs."""


class UndeclaredFieldError(ConfigurationError, AttributeError):
    """A term reads a field that the task did not declare; an AttributeError for ``hasattr``."""


class Fields:
    """Named tensors with fixed addresses: ``sim.data.qpos``.

    Reading a field that was not declared raises an error that says where to declare it.
    """

    def __init__(self, kind: str, declare_in: str, tensors: dict[str, torch.Tensor]) -> None:
        self._kind = kind
        self._declare_in = declare_in
        self._tensors = tensors
        self.__dict__.update(tensors)

    def __getattr__(self, name: str) -> torch.Tensor:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UndeclaredFieldError(
            f"The {self._kind} field {name!r} was not declared for this simulation; it has "
            f"{', '.join(self._tensors) or 'none'}. Add {name!r} to {self._declare_in}."
        )

    def __getitem__(self, name: str) -> torch.Tensor:
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def items(self) -> list[tuple[str, torch.Tensor]]:
        """Return (name, tensor) pairs in the order of declaration."""
        return list(self._tensors.items())


class Simulation(ABC):
    """``num_envs`` copies of one MuJoCo model, stepped together.

    Tensors are float32, ``(num_envs, ...)``, on :attr:`device`, at fixed addresses.

    Attributes:
        model: The model that all environments share, except :attr:`params`.
        num_envs: Number of environments.
        decimation: Physics steps per control step.
        device: Device of all tensors.
        ctrl: Actuator controls, ``(num_envs, nu)``; tasks write it before :meth:`step`.
        xfrc_applied: External wrenches in the world frame, force (N) then torque (N m),
            ``(num_envs, nbody, 6)``; written through :meth:`apply_wrench`.
        mocap_pos: Positions of mocap bodies, in m, ``(num_envs, nmocap, 3)``; tasks write them, and
            they count from the next :meth:`step` or :meth:`reset` on, which leaves them.
        mocap_quat: Their orientations, (w, x, y, z), ``(num_envs, nmocap, 4)``; written in the same
            way.
        data: Declared MjData fields, ``(num_envs, ...)``. Read only.
        substeps: Declared MjData fields in each physics step of the last control step,
            ``(num_envs, decimation, ...)``. ``qpos`` and ``qvel`` are those at its end; as in
            MuJoCo, fields of the position and velocity stages belong to the state at its
            beginning. Read only.
        params: Declared MjModel fields, ``(num_envs, ...)``; write rows, then :meth:`apply_params`.
    """

    model: mujoco.MjModel
    num_envs: int
    decimation: int
    device: torch.device
    ctrl: torch.Tensor
    xfrc_applied: torch.Tensor
    mocap_pos: torch.Tensor
    mocap_quat: torch.Tensor
    data: Fields
    substeps: Fields
    params: Fields
    repeats_exactly = True
    """Whether equal states and controls lead to equal bits, whatever the order of threads."""
    _waiting: list[torch.Tensor | None] | None = None
    """Masks of :meth:`apply_params` that take effect later, in :meth:`params_applied_once`."""
    num_changes = 0
    """Number of writes to states or parameters; results derived from them are valid until it
    changes."""
    num_pushes = 0
    """Those among them that :meth:`set_velocity` made, which leave poses as they are."""

    @functools.cached_property  # reading it in the model takes 2 us
    def physics_dt(self) -> float:
        """Physics time step, in seconds."""
        return float(self.model.opt.timestep)

    @property
    def step_dt(self) -> float:
        """Control step, in seconds: ``physics_dt * decimation``."""
        return self.physics_dt * self.decimation

    @abstractmethod
    def step(self) -> None:
        """Run one control step, ``decimation`` physics steps; declared fields are then current."""

    has_substeps = False
    """Whether :meth:`substep` exists: controls may be written before each physics step."""

    def substep(self, number: int) -> None:
        """Run one physics step, after which every declared field is current.

        As many as :attr:`decimation` are a control step, as :meth:`step` makes it in one call.

        Args:
            number: Its place in the control step, from 0.
        """
        raise NotImplementedError

    def prepare_substeps(self) -> None:
        """Prepare for :meth:`substep` being called instead of :meth:`step`."""

    def defer_refresh(self) -> None:
        """Let fields that follow from the state wait for :meth:`refresh`, where that saves time."""

    def refresh(self) -> None:
        """Bring the fields that wait up to the state; those of forces are the last step's."""

    @abstractmethod
    def reset(
        self,
        mask: torch.Tensor,
        qpos: torch.Tensor | None = None,
        qvel: torch.Tensor | None = None,
    ) -> None:
        """Reset the masked environments and refresh their fields.

        Args:
            mask: The environments, bool ``(num_envs,)``.
            qpos: New positions of all environments, ``(num_envs, nq)``; rows outside the mask are
                ignored. None: the model's ``qpos0``.
            qvel: New velocities, ``(num_envs, nv)``. None: zero.
        """

    @abstractmethod
    def set_velocity(self, mask: torch.Tensor, qvel: torch.Tensor) -> None:
        """Change only the velocities in the state of the masked environments.

        Fields of the velocity stage are then current; those of the acceleration stage, contact
        sensors among them, still belong to the last physics step.

        Args:
            mask: The environments, bool ``(num_envs,)``.
            qvel: New velocities, ``(num_envs, nv)``; rows outside the mask are ignored.
        """

    def apply_params(self, mask: torch.Tensor | None = None) -> None:
        """Make values written to :attr:`params` effective, with the constants derived from them.

        Write only rows inside the mask: whether other rows take effect depends on the backend.

        Args:
            mask: Environments that changed, bool ``(num_envs,)``. None: all.
        """
        if self._waiting is None:
            self._apply_params(mask)
        else:
            self._waiting.append(mask)

    @contextmanager
    def params_applied_once(self) -> Iterator[None]:
        """Let :meth:`apply_params` within this block take effect once, at its end.

        Fifteen events at a reset then compute the derived constants once.
        """
        if self._waiting is not None:  # an outer block ends later
            yield
            return
        self._waiting = []
        try:
            yield
            masks = self._waiting
        finally:
            self._waiting = None
        if masks:
            whole = masks[0]
            for mask in masks[1:]:
                if mask is not whole:
                    whole = None if whole is None or mask is None else whole | mask
            self._apply_params(whole)

    @abstractmethod
    def _apply_params(self, mask: torch.Tensor | None) -> None:
        """Do the work of :meth:`apply_params`."""

    def write_params(self, model: mujoco.MjModel, index: int) -> None:
        """Write environment ``index``'s randomised fields to a model, such as a picture's."""
        for name, tensor in self.params.items():
            set_model_field(model, name, tensor[index].cpu().numpy())

    @functools.cached_property
    def _body_ids(self) -> dict[tuple[int, ...], torch.Tensor]:
        return {}

    def body_index(self, body_ids: Sequence[int]) -> torch.Tensor:
        """Return indices of bodies, int64 ``(k,)`` on :attr:`device`; copied to it once."""
        key = tuple(body_ids)
        if key not in self._body_ids:
            self._body_ids[key] = torch.tensor(key, device=self.device)
        return self._body_ids[key]

    def apply_wrench(
        self, body_ids: Sequence[int], force: torch.Tensor, torque: torch.Tensor
    ) -> None:
        """Apply world-frame wrenches at the bodies' centres of mass until they are overwritten.

        Args:
            body_ids: Indices of ``k`` bodies.
            force: Forces in N, ``(num_envs, k, 3)``.
            torque: Torques in N m, ``(num_envs, k, 3)``.
        """
        wrench = torch.cat((force, torque), dim=-1)
        self.xfrc_applied.index_copy_(1, self.body_index(body_ids), wrench)

    @abstractmethod
    def rays(
        self,
        origins: torch.Tensor,
        directions: torch.Tensor,
        *,
        geom_groups: Sequence[int] | None = None,
        exclude_body: int | torch.Tensor = -1,
        mask: torch.Tensor | None = None,
        normals: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cast rays against each environment's geoms, in the poses of its current state.

        Rays that all environments share are best given as views, ``rays.expand(num_envs, -1, -1)``,
        which saves copies. To measure the height of a terrain,
        :class:`envlab.sim.height_field.HeightField` is faster.

        Args:
            origins: World-frame origins in m, ``(num_envs, num_rays, 3)``.
            directions: Directions, ``(num_envs, num_rays, 3)``; distances are in units of their
                length.
            geom_groups: Geom groups (0 to 5) that rays can hit. None: all.
            exclude_body: Body whose geoms rays pass through, -1 for none; or one for each ray,
                int32 ``(num_rays,)`` on :attr:`device`.
            mask: Environments whose rays are needed, bool ``(num_envs,)``; None: all. The other
                results are meaningless. It saves time on a CPU.
            normals: Where to write the surfaces' unit normals in the world frame, float32
                ``(num_envs, num_rays, 3)``, 0 for a miss; None: nowhere.

        Returns:
            Distances float32 and geom indices int64, both ``(num_envs, num_rays)``; -1 for a miss.
        """

    def pictures(
        self,
        cfg: PictureCfg,
        frames: Frames,
        *,
        wanted: torch.Tensor,
        slot: torch.Tensor,
        num_threads: int = 1,
    ) -> Pictures:
        """Return what draws a camera's pictures into frames, in the poses of the current state.

        It needs the data fields of :data:`~envlab.sim.cfg.POSE_FIELDS`, and for colours
        :data:`~envlab.sim.cfg.LIGHT_FIELDS`.

        Args:
            cfg: The camera.
            frames: Where to draw.
            wanted: Environments to draw, bool ``(num_envs,)``; read at each drawing.
            slot: Index of the frame to draw on, int32 ``(num_envs,)``; read at each drawing.
            num_threads: Threads on a CPU.

        Raises:
            SimulationError: If the backend draws no pictures, or ``warp-lang`` is not installed.
        """
        raise SimulationError(
            "The analytic backend has no geometry, so a camera sees nothing. Use "
            "env.sim.backend=mujoco (or mujoco_warp on a GPU)."
        )

    @abstractmethod
    def bad(self) -> torch.Tensor:
        """Return which environments broke down since their last reset, bool ``(num_envs,)``."""

    @abstractmethod
    def overflow(self) -> torch.Tensor:
        """Return which environments ran out of contacts or constraint rows, bool ``(num_envs,)``.

        The report covers everything since the previous call.
        """

    @abstractmethod
    def overflow_advice(self) -> str:
        """Return a sentence that names the setting to raise after an overflow, and its value."""

    @abstractmethod
    def state(self) -> dict[str, torch.Tensor]:
        """Return copies on the CPU of all that :meth:`step` depends on, for an exact resume.

        Each is ``(num_envs, ...)``.
        """

    @abstractmethod
    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        """Restore what :meth:`state` returned, and refresh all fields."""

    @abstractmethod
    def model_of(self, index: int) -> mujoco.MjModel:
        """Return environment ``index``'s model with its randomised fields, for rendering."""

    @abstractmethod
    def data_of(self, index: int) -> mujoco.MjData:
        """Return environment ``index``'s data after a forward pass, for rendering."""

    def close(self) -> None:
        """Free native memory. The simulation must not be used afterwards."""


def check_fields(
    model: mujoco.MjModel, data_fields: Sequence[str], substep_fields: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return :data:`STATE_FIELDS` followed by the declared data fields, without duplicates.

    Raises:
        ConfigurationError: For a field that cannot be read reliably (see :data:`ARENA_FIELDS` and
            :data:`ON_DEMAND_FIELDS`), that MjData does not have, or that should be kept for every
            physics step but is not declared.
    """
    for name in substep_fields:
        if name not in (*STATE_FIELDS, *data_fields):
            raise ConfigurationError(
                f"{name!r} must be kept for every physics step, for a contact sensor or by "
                "env.sim.substep_fields, but env.sim.data_fields does not declare it. Add it to "
                "that list."
            )
    known = [name for name in dir(mujoco.MjData) if not name.startswith("_")]
    for name in data_fields:
        if name in ARENA_FIELDS or name.startswith(("efc_", "iefc_")):
            raise ConfigurationError(
                f"env.sim.data_fields names {name!r}, whose length changes every step, so it has "
                "no fixed address. Use a MuJoCo contact sensor and declare 'sensordata'."
            )
        if name in ON_DEMAND_FIELDS:
            raise ConfigurationError(
                f"env.sim.data_fields names {name!r}, which MuJoCo computes only for some sensors "
                "and leaves stale otherwise. Use a sensor in the MJCF, for contact forces "
                '<contact ... data="force" reduce="netforce"/>, and declare "sensordata".'
            )
        if name not in known:
            raise ConfigurationError(
                f"env.sim.data_fields names {name!r}, which is not an MjData field."
                f"{did_you_mean(name, known)}"
            )
    return tuple(dict.fromkeys((*STATE_FIELDS, *data_fields)))


def create_simulation(
    cfg: SimulationCfg,
    model: mujoco.MjModel,
    num_envs: int,
    *,
    decimation: int,
    device: torch.device,
    num_threads: int = 0,
) -> Simulation:
    """Build the simulation that ``cfg`` names.

    Args:
        cfg: Physics settings; ``cfg.dt`` overrides the time step in ``model``.
        model: The compiled model. It is not modified.
        num_envs: Number of environments.
        decimation: Physics steps per control step.
        device: The process's device. The ``mujoco`` backend runs on the CPU.
        num_threads: CPU threads for the ``mujoco`` backend if ``cfg`` does not set them.

    Raises:
        ConfigurationError: For an unknown backend or field.
        SimulationError: If the backend's package is not installed.
    """
    name = cfg.backend
    if name == "auto":
        name = "mujoco" if device.type == "cpu" else "mujoco_warp"
    if name not in BACKENDS:
        raise ConfigurationError(
            f"env.sim.backend is {name!r}, but must be one of auto, {', '.join(BACKENDS)}."
            f"{did_you_mean(name, BACKENDS)}"
        )
    module_name, class_name = BACKENDS[name].split(":")
    try:
        backend = getattr(importlib.import_module(module_name), class_name)
    except ModuleNotFoundError as error:
        raise SimulationError(
            f"The backend {name!r} needs the package {error.name!r}, which is not installed. "
            "Install it with: pip install -c constraints.txt -e '.[warp]'"
        ) from error
    model = copy_model(model)
    model.opt.timestep = cfg.dt
    return backend(
        cfg, model, num_envs, decimation=decimation, device=device, num_threads=num_threads
    )


def mocap_poses(
    model: mujoco.MjModel, num_envs: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the poses of mocap bodies in the model, ``(num_envs, nmocap, 3)`` and ``(..., 4)``."""
    bodies = np.argsort(model.body_mocapid)[model.nbody - model.nmocap :]
    pos, quat = (
        torch.as_tensor(values[bodies], dtype=torch.float32, device=device).repeat(num_envs, 1, 1)
        for values in (model.body_pos, model.body_quat)
    )
    return pos, quat


def initial_history(model: mujoco.MjModel) -> np.ndarray | None:
    """Return ``MjData.history`` of a reset simulation, ``(nhistory,)``; None without any.

    MuJoCo starts delayed actuators from control 0, which sends joints to their zero pose until the
    first control arrives. Here they start from the controls of the keyframe ``home``.
    """
    if not model.nhistory:
        return None
    data = mujoco.MjData(model)
    key = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, "home")
    if key >= 0:
        for actuator in range(model.nactuator):
            num_samples = int(model.actuator_history[actuator, 0])
            start, num = model.actuator_ctrladr[actuator], model.actuator_ctrlnum[actuator]
            if num_samples:
                values = np.tile(model.key_ctrl[key, start : start + num], num_samples)
                mujoco.mj_initCtrlHistory(model, data, actuator, None, values)
    return np.array(data.history)


def copy_model(model: mujoco.MjModel) -> mujoco.MjModel:
    """Return a copy of a compiled model, which can be changed without affecting the original."""
    return copy.copy(model)


def model_field(model: mujoco.MjModel, name: str) -> np.ndarray:
    """Return a field of a model; those of its options are called ``opt.gravity``."""
    return np.asarray(operator.attrgetter(name)(model))


def set_model_field(model: mujoco.MjModel, name: str, values: np.ndarray) -> None:
    """Write a field of a model; see :func:`model_field`."""
    holder, _, last = name.rpartition(".")
    owner = getattr(model, holder) if holder else model
    current = getattr(owner, last)
    if isinstance(current, np.ndarray):
        current[:] = values
    else:
        setattr(owner, last, type(current)(values))
