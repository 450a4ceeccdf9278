"""The GPU backend: ``mujoco_warp``, one captured graph per control step and one per masked reset.

Tensors are zero-copy views of Warp's float32 arrays. Warp's CPU device captures graphs too, so
tests without a GPU walk the same code. On CUDA everything runs on PyTorch's current stream, and
neither :meth:`WarpSimulation.step` nor :meth:`WarpSimulation.reset` waits for the host.

Traps of ``mujoco_warp`` (4.0) that this file answers (each has a test in ``tests/sim``):

2. A reset recomputes every environment, which would give the others acceleration-stage values that
   belong to no physics step. So those fields are shown through :class:`_Mirror` copies, of which a
   reset writes the masked rows only, as the CPU backend does.
4. ``set_const`` writes one row for all environments unless its outputs are expanded as well.
6. Full buffers drop contacts in silence, and a reset clears the report: it is collected before.
7. ``reset_data`` builds its kernels anew at each call (5 ms): hence a graph over a persistent mask.
8. A garbage collection during capture can free what the graph uses: it is suspended.

Static geoms keep the poses that the model gives them: randomising ``geom_pos`` or ``body_pos`` of a
body that is fixed to the world has no effect here.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp

from envlab.errors import ConfigurationError, SimulationError, did_you_mean
from envlab.sim.simulation import Fields, Simulation, SimulationCfg, check_fields, copy_model

wp.config.log_level = wp.LOG_WARNING  # Else it prints a line per kernel module.

VALUE_MAX = 1e10
"""MuJoCo's ``mjMAXVAL``: a larger position, velocity or acceleration counts as unstable."""

_ROW_FIELDS = frozenset(("time", "qpos", "qvel", "act", "ctrl", "mocap_pos", "mocap_quat"))
"""Fields that integration itself leaves current (see :mod:`envlab.sim.mujoco_backend`)."""

_SMOOTH_FIELDS = frozenset(
    "xpos xquat xmat xipos ximat xanchor xaxis geom_xpos geom_xmat site_xpos site_xmat cam_xpos "
    "cam_xmat light_xpos light_xdir subtree_com cdof cinert crb ten_length ten_velocity cvel "
    "cdof_dot actuator_length actuator_velocity qfrc_bias qfrc_spring qfrc_damper qfrc_gravcomp "
    "qfrc_fluid qfrc_passive energy eq_active ne nf nl nefc".split()
)
"""Fields of the position and velocity stages. Other derived fields need the acceleration stage."""

_SET_CONST_OUTPUTS = tuple(
    "body_subtreemass body_invweight0 dof_invweight0 tendon_length0 tendon_invweight0 "
    "actuator_acc0 eq_data cam_pos0 cam_poscom0 cam_mat0 light_pos0 light_poscom0 "
    "light_dir0".split()
)
_GEOM_SIZE_OUTPUTS = ("geom_aabb", "geom_rbound")

_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
_SPLIT_INTEGRATORS = frozenset(
    int(getattr(mujoco.mjtIntegrator, f"mjINT_{name}"))
    for name in ("EULER", "IMPLICIT", "IMPLICITFAST")
)
"""Integrators whose step is ``step1`` then ``step2``, which would turn RK4 into Euler."""

_CONTACT_OVERFLOWS = (
    mjw.OverflowType.BROADPHASE | mjw.OverflowType.NARROWPHASE | mjw.OverflowType.CCD
)
_CONSTRAINT_OVERFLOWS = mjw.OverflowType.NEFC | mjw.OverflowType.NJMAX_NNZ
_OVERFLOWS = int(_CONTACT_OVERFLOWS | _CONSTRAINT_OVERFLOWS)
"""Flags that mean lost contacts or constraint rows; others tell of iterations and sensors."""


@wp.kernel(enable_backward=False)
def _copy_rows(
    rows: wp.array[bool],
    columns: wp.array[bool],
    source: wp.array2d[float],
    target: wp.array2d[float],
):
    row, column = wp.tid()
    if rows[row] and columns[column]:
        target[row, column] = source[row, column]


@wp.kernel(enable_backward=False)
def _collect_flags(source: wp.array[int], target: wp.array[int]):
    row = wp.tid()
    target[row] = target[row] | source[row]


@dataclasses.dataclass(kw_only=True)
class _Mirror:
    """A copy of a Warp array of which a reset writes the masked rows only: see trap 2."""

    source: wp.array
    target: wp.array
    columns: wp.array


class WarpSimulation(Simulation):
    """See :class:`envlab.sim.simulation.Simulation`."""

    def __init__(
        self,
        cfg: SimulationCfg,
        model: mujoco.MjModel,
        num_envs: int,
        *,
        decimation: int,
        device: torch.device,
        num_threads: int = 0,
    ) -> None:
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        fields = check_fields(model, cfg.data_fields)
        self.model, self.num_envs, self.decimation = model, num_envs, decimation
        self.device = device
        wp.init()
        self._device, self._stream = wp.device_from_torch(device), None
        self._graphs: dict[Callable[[], None], wp.Graph] = {}
        self._body_ids: dict[tuple[int, ...], torch.Tensor] = {}

        self._has_derived = not _ROW_FIELDS.issuperset(fields)
        sensor_stages = model.sensor_needstage if "sensordata" in fields else np.zeros(0)
        self._needs_acceleration = bool((sensor_stages == mujoco.mjtStage.mjSTAGE_ACC).any())
        known_stages = _ROW_FIELDS | _SMOOTH_FIELDS | {"sensordata"}
        self._needs_acceleration |= not known_stages.issuperset(fields)
        # With derived fields the refresh after a step is the first half of the next one, which
        # saves one position and velocity pass per control step.
        self._split = (
            self._has_derived
            and model.opt.integrator in _SPLIT_INTEGRATORS
            and not model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP
        )
        with wp.ScopedDevice(self._device):
            self._put(cfg)
            self._bind(cfg, fields)
            self._record((self._reset, self._step, self._apply), cfg.graph)
        self.reset(torch.ones(num_envs, dtype=torch.bool, device=device))
        self.overflow()

    def step(self) -> None:
        self._launch(self._step)
        self._convert()

    def reset(
        self,
        mask: torch.Tensor,
        qpos: torch.Tensor | None = None,
        qvel: torch.Tensor | None = None,
    ) -> None:
        self._mask.copy_(mask)
        self._qpos.copy_(self._qpos0 if qpos is None else qpos)
        if qvel is None:
            self._qvel.zero_()
        else:
            self._qvel.copy_(qvel)
        self._launch(self._reset)
        self._convert()

    def apply_params(self, mask: torch.Tensor | None = None) -> None:
        for mirror, values in self._converted_params:
            values.copy_(mirror)
        if self._constants:
            self._launch(self._apply)

    def apply_wrench(
        self, body_ids: Sequence[int], force: torch.Tensor, torque: torch.Tensor
    ) -> None:
        key = tuple(body_ids)
        if key not in self._body_ids:  # Indexing with a list would copy it to the GPU at each call.
            self._body_ids[key] = torch.tensor(key, device=self.device)
        self.xfrc_applied.index_copy_(1, self._body_ids[key], torch.cat((force, torque), dim=-1))

    def rays(
        self,
        origins: torch.Tensor,
        directions: torch.Tensor,
        *,
        geom_groups: Sequence[int] | None = None,
        exclude_body: int = -1,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        shape = origins.shape[:2]
        distance = torch.empty(shape, device=self.device)
        geom = torch.empty(shape, dtype=torch.int32, device=self.device)
        normal = torch.empty((*shape, 3), device=self.device)
        excluded = torch.full((shape[1],), exclude_body, dtype=torch.int32, device=self.device)
        groups = [-1] * mujoco.mjNGROUP
        if geom_groups is not None:
            groups = [int(group in geom_groups) for group in range(mujoco.mjNGROUP)]
        with self._scope():
            if not self._has_derived:
                mjw.kinematics(self._m, self._d)
            mjw.rays(
                self._m,
                self._d,
                wp.from_torch(origins.contiguous(), dtype=wp.vec3),
                wp.from_torch(directions.contiguous(), dtype=wp.vec3),
                wp.types.vector(mujoco.mjNGROUP, int)(*groups),
                True,
                wp.from_torch(excluded),
                wp.from_torch(distance),
                wp.from_torch(geom),
                wp.from_torch(normal, dtype=wp.vec3),
            )
        return distance, geom.long()

    def bad(self) -> torch.Tensor:
        # NaN compares false. Warp does not reset by itself, so an unstable state stays.
        stable = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        for values in (self.data.qpos, self.data.qvel, self._qacc):
            stable &= (values.abs() < VALUE_MAX).all(dim=1)
        return ~stable

    def overflow(self) -> torch.Tensor:
        flags = self._overflow_before_reset | self._overflow
        self._overflow_kinds |= flags
        self._overflow_before_reset.zero_()
        self._overflow.zero_()
        return (flags & _OVERFLOWS) != 0

    def overflow_advice(self) -> str:
        kinds = int(np.bitwise_or.reduce(self._overflow_kinds.cpu().numpy()))
        contacts = int(torch.maximum(*map(wp.to_torch, (self._d.nacon, self._d.ncollision))))
        rows = int(wp.to_torch(self._d.nefc).max())
        limits = (
            ("contacts", _CONTACT_OVERFLOWS, self._d.naconmax // self.num_envs, contacts),
            ("constraints", _CONSTRAINT_OVERFLOWS, self._d.njmax, rows * self.num_envs),
        )
        advice = [
            f"env.sim.num_{name}_max is {limit}, which is too small: "
            f"raise it to {max(2 * limit, -(-2 * used // self.num_envs))}."
            for name, flags, limit, used in limits
            if kinds & flags
        ]
        return " ".join(advice) or "No contact or constraint buffer has been full."

    def state(self) -> dict[str, torch.Tensor]:
        values = {"rows": self._rows()}
        values |= {f"data.{name}": tensor for name, tensor in self.data.items()}
        values |= {f"params.{name}": tensor for name, tensor in self.params.items()}
        values |= {f"constants.{name}": tensor for name, tensor in self._constants.items()}
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in values.items()}

    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        for name, tensor in self.params.items():
            tensor.copy_(state[f"params.{name}"])
        for mirror, values in self._converted_params:
            values.copy_(mirror)
        # The derived constants are copied too: computed anew they would differ in the last bit from
        # those that MuJoCo's compiler wrote in double precision.
        for name, tensor in self._constants.items():
            tensor.copy_(state[f"constants.{name}"])
        rows = state["rows"].to(self.device)
        with self._scope():
            mjw.set_state(self._m, self._d, wp.from_torch(rows), _STATE)
            self._refresh()
        # As in the CPU backend, fields are copied: those of the acceleration stage belong to the
        # last physics step.
        for name, tensor in self.data.items():
            tensor.copy_(state[f"data.{name}"])
        self.overflow()

    def model_of(self, index: int) -> mujoco.MjModel:
        model = copy_model(self.model)
        for name, tensor in self.params.items():
            getattr(model, name)[:] = tensor[index].cpu().numpy()
        if self._constants:
            mujoco.mj_setConst(model, mujoco.MjData(model))
        return model

    def data_of(self, index: int) -> mujoco.MjData:
        model = self.model_of(index)
        data = mujoco.MjData(model)
        row = self._rows()[index].cpu().numpy().astype(np.float64)
        mujoco.mj_setState(model, data, row, _STATE)
        mujoco.mj_forward(model, data)
        return data

    def _step(self) -> None:
        """Run one control step; acceleration-stage fields keep the last physics step's values."""
        for substep in range(self.decimation):
            if self._split:
                mjw.step2(self._m, self._d)
            else:
                mjw.step(self._m, self._d)
            last = substep == self.decimation - 1
            if last:
                self._show(self._acceleration_mirrors, self._all)
            if self._split or (last and self._has_derived):
                mjw.step1(self._m, self._d)
        self._show(self._smooth_mirrors, self._all)

    def _reset(self) -> None:
        """Reset the environments of the mask to the targets; the others are recomputed in place."""
        wp.launch(
            _collect_flags,
            dim=self.num_envs,
            inputs=[self._d.overflow, wp.from_torch(self._overflow_before_reset)],
        )
        mjw.reset_data(self._m, self._d, self._mask_rows)
        self._show(self._targets, self._mask_rows)
        if self._needs_acceleration:
            mjw.forward(self._m, self._d)
        elif self._has_derived:
            mjw.step1(self._m, self._d)
        self._show(self._acceleration_mirrors + self._smooth_mirrors, self._mask_rows)
        if self._split and self._needs_acceleration:
            # As step1() leaves it: touch sensors add to old values, and the fused factor of
            # forward() may differ in the last bit from the one that set_state() recomputes.
            self._d.sensordata.zero_()
            mjw.factor_m(self._m, self._d)

    def _apply(self) -> None:
        mjw.set_const(self._m, self._d, restore=False)
        self._refresh()

    def _refresh(self) -> None:
        """Recompute what the next physics step and the position and velocity fields rest on."""
        if self._has_derived:
            mjw.fwd_position(self._m, self._d)
            mjw.fwd_velocity(self._m, self._d)

    def _show(self, mirrors: Sequence[_Mirror], rows: wp.array) -> None:
        for mirror in mirrors:
            wp.launch(
                _copy_rows,
                dim=mirror.target.shape,
                inputs=[rows, mirror.columns, mirror.source, mirror.target],
            )

    def _put(self, cfg: SimulationCfg) -> None:
        """Put model and data on the device, with declared model fields once per environment."""
        names = dict.fromkeys(cfg.model_fields)
        known = [
            field.name
            for field in dataclasses.fields(mjw.Model)
            if getattr(field.type, "shape", ())[:1] == ("*",)
        ]
        for name in names:
            if name not in known:
                raise ConfigurationError(
                    f"env.sim.model_fields names {name!r}, which mujoco_warp does not hold per "
                    f"environment.{did_you_mean(name, known)}"
                )
        if names:
            names |= dict.fromkeys(_SET_CONST_OUTPUTS)
        if "geom_size" in names:
            names |= dict.fromkeys(_GEOM_SIZE_OUTPUTS)
        try:
            self._m = mjw.put_model(self.model, batch_sizes=dict.fromkeys(names, self.num_envs))
            self._d = mjw.make_data(
                self.model,
                nworld=self.num_envs,
                nconmax=cfg.num_contacts_max,
                njmax=cfg.num_constraints_max,
            )
        except (NotImplementedError, ValueError) as error:
            raise SimulationError(
                f"mujoco_warp cannot simulate this model: {str(error).rstrip('.')}. Change the "
                "model, or use env.sim.backend=mujoco."
            ) from error
        self._m.opt.warn_overflow = 0  # Printing from kernels stalls the device: see overflow().
        self._constants = {
            name: wp.to_torch(getattr(self._m, name))
            for name in names
            if name not in cfg.model_fields
        }

    def _bind(self, cfg: SimulationCfg, fields: Sequence[str]) -> None:
        """Make the tensors that tasks see, and those that the graphs read."""
        num_envs, model = self.num_envs, self.model
        self._all = wp.ones(num_envs, dtype=bool)
        self._smooth_mirrors: list[_Mirror] = []
        self._acceleration_mirrors: list[_Mirror] = []
        self._converted_data: list[tuple[torch.Tensor, torch.Tensor]] = []
        example = mujoco.MjData(model)
        data = {name: self._data_field(name, example) for name in fields}
        self.data = Fields("data", "env.sim.data_fields", data)

        self._converted_params: list[tuple[torch.Tensor, torch.Tensor]] = []
        params = {name: self._model_field(name) for name in dict.fromkeys(cfg.model_fields)}
        self.params = Fields("model", "env.sim.model_fields", params)

        self.ctrl = wp.to_torch(self._d.ctrl)
        self.xfrc_applied = wp.to_torch(self._d.xfrc_applied)
        self._qacc, self._overflow = wp.to_torch(self._d.qacc), wp.to_torch(self._d.overflow)
        self._overflow_before_reset = torch.zeros_like(self._overflow)
        self._overflow_kinds = torch.zeros_like(self._overflow)
        self._mask = torch.ones(num_envs, dtype=torch.bool, device=self.device)
        self._mask_rows = wp.from_torch(self._mask)
        self._qpos0 = wp.to_torch(self._m.qpos0)
        self._qpos = torch.zeros(num_envs, model.nq, device=self.device)
        self._qvel = torch.zeros(num_envs, model.nv, device=self.device)
        self._targets = [
            _mirror(self._qpos, self.data.qpos),
            _mirror(self._qvel, self.data.qvel),
        ]

    def _data_field(self, name: str, example: mujoco.MjData) -> torch.Tensor:
        """Return a view of a data field with MuJoCo's own shape, or a mirror of it."""
        shape = (self.num_envs, *np.shape(getattr(example, name)))
        array = getattr(self._d, name, None)
        if not isinstance(array, wp.array) or wp.to_torch(array).numel() != np.prod(shape):
            raise ConfigurationError(
                f"env.sim.data_fields names {name!r}, which mujoco_warp does not have in MuJoCo's "
                "layout. Use a sensor and declare 'sensordata', or env.sim.backend=mujoco."
            )
        values = wp.to_torch(array).view(shape)
        if name == "sensordata":
            shown = torch.zeros_like(values)
            stages = np.repeat(self.model.sensor_needstage, self.model.sensor_dim)
            late = torch.from_numpy(stages == mujoco.mjtStage.mjSTAGE_ACC).to(self.device)
            self._acceleration_mirrors.append(_mirror(values, shown, late))
            self._smooth_mirrors.append(_mirror(values, shown, ~late))
            return shown
        if values.dtype != torch.float32:
            shown = values.to(torch.float32)
            self._converted_data.append((shown, values))
            return shown
        if name in _ROW_FIELDS or name in _SMOOTH_FIELDS:
            return values
        shown = torch.zeros_like(values)
        self._acceleration_mirrors.append(_mirror(values, shown))
        return shown

    def _model_field(self, name: str) -> torch.Tensor:
        """Return a view of a per-environment model field, or a float32 stand-in for integers."""
        shape = (self.num_envs, *np.shape(getattr(self.model, name)))
        values = wp.to_torch(getattr(self._m, name)).view(shape)
        if values.dtype == torch.float32:
            return values
        mirror = values.to(torch.float32)
        self._converted_params.append((mirror, values))
        return mirror

    def _rows(self) -> torch.Tensor:
        """Return MuJoCo's integration state, float32 ``(num_envs, size)``."""
        size = mujoco.mj_stateSize(self.model, _STATE)
        rows = torch.zeros(self.num_envs, size, device=self.device)
        with self._scope():
            mjw.get_state(self._m, self._d, wp.from_torch(rows), _STATE)
        return rows

    def _record(self, functions: Sequence[Callable[[], None]], graph: bool) -> None:
        """Run each function once, which compiles its kernels, and capture it."""
        self._synchronize()
        for function in functions:
            if function == self._apply and not self._constants:
                continue
            function()
            if graph:
                with _collection_suspended(), wp.ScopedCapture(self._device) as capture:
                    function()
                self._graphs[function] = capture.graph
        self._synchronize()

    def _convert(self) -> None:
        """Refresh the float32 stand-ins of bool and integer data fields."""
        for shown, values in self._converted_data:
            shown.copy_(values)

    def _launch(self, function: Callable[[], None]) -> None:
        if function not in self._graphs:
            with self._scope():
                function()
        elif self.device.type == "cuda":
            wp.capture_launch(self._graphs[function], stream=self._current_stream())
        else:
            wp.capture_launch(self._graphs[function])

    def _scope(self) -> AbstractContextManager[object]:
        """Return a context in which Warp works on our device and on PyTorch's current stream."""
        if self.device.type == "cuda":
            return wp.ScopedStream(self._current_stream(), sync_enter=False)
        return wp.ScopedDevice(self._device)

    def _current_stream(self) -> wp.Stream:
        current = torch.cuda.current_stream(self.device)
        if self._stream is None or self._stream.cuda_stream != current.cuda_stream:
            self._stream = wp.stream_from_torch(current)
        return self._stream

    def _synchronize(self) -> None:
        """Wait for all streams: Warp captures on its own, as PyTorch's default cannot record."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def warm_kernel_cache(cfg: SimulationCfg, model: mujoco.MjModel, device: torch.device) -> float:
    """Compile the kernels of a model into Warp's cache on disk.

    Args:
        cfg: Physics settings, with the fields that the task declares.
        model: The compiled model. It is not modified.
        device: Device to compile for.

    Returns:
        Seconds it took: tens for a new model, a few for one in the cache.
    """
    start = time.perf_counter()
    model = copy_model(model)
    model.opt.timestep = cfg.dt
    simulation = WarpSimulation(cfg, model, 2, decimation=1, device=device)
    simulation.step()
    simulation.reset(torch.ones(2, dtype=torch.bool, device=device))
    wp.synchronize_device(wp.device_from_torch(device))
    return time.perf_counter() - start


def _mirror(
    source: torch.Tensor, target: torch.Tensor, columns: torch.Tensor | None = None
) -> _Mirror:
    """Return a mirror between two tensors of the same shape, all columns by default."""
    width = target[0].numel()
    if columns is None:
        columns = torch.ones(width, dtype=torch.bool, device=target.device)
    flat = (tensor.view(len(tensor), width) for tensor in (source, target))
    source_rows, target_rows = map(wp.from_torch, flat)
    return _Mirror(source=source_rows, target=target_rows, columns=wp.from_torch(columns))


@contextmanager
def _collection_suspended() -> Iterator[None]:
    """Suspend garbage collection: see trap 8."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
