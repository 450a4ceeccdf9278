"""The GPU backend: ``mujoco_warp``, one captured graph per control step and one per masked reset.

Warp's CPU device captures graphs too, so tests without a GPU run the same code. On CUDA everything
runs on PyTorch's current stream, and neither :meth:`WarpSimulation.step` nor
:meth:`WarpSimulation.reset` waits for the host.

Surprises of ``mujoco_warp`` (4.0), and this file's answers (each has a test in ``tests/sim``); for
more, see :mod:`envlab.sim.warp_fields`:

- Full buffers drop contacts silently, and a reset clears the report: it is collected before.
- ``reset_data`` rebuilds its kernels in each call (5 ms): hence a graph over a persistent mask.
- A garbage collection during capture can free what the graph uses: it is suspended.
- PyTorch's default stream has the handle 0 on every GPU, and a graph launched on it goes to the
  current GPU: launches first make ours current.
- ``DeterminismType.CONSTRAINT`` sorts nothing: threads take rows of constraints in any order.
- Rays miss triangles of meshes and height fields unless directions have length 1, which MuJoCo
  does not require: they are normalised, and distances converted back to units of their length.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import metadata
from pathlib import Path
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp

from envlab.sim._warp_pictures import WarpPictures
from envlab.sim.cfg import Frames, PictureCfg
from envlab.sim.kernel_cache import compiled_once
from envlab.sim.recording import between_graphs, collection_suspended
from envlab.sim.simulation import (
    Simulation,
    SimulationCfg,
    check_fields,
    copy_model,
    initial_history,
    mocap_poses,
)
from envlab.sim.warp_fields import DataTensors, Mirror, ParamTensors, has_ordered_rows, put

wp.config.log_level = wp.LOG_WARNING  # Else it prints a line per kernel module.

VALUE_MAX = 1e10
"""MuJoCo's ``mjMAXVAL``: a larger position, velocity or acceleration counts as unstable."""

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
"""Flags that mean lost contacts or constraint rows; others report iterations and sensors."""


logger = logging.getLogger(__name__)


class WarpSimulation(Simulation):
    """See :class:`envlab.sim.simulation.Simulation`."""

    has_substeps = True

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
        names = check_fields(model, cfg.data_fields, cfg.substep_fields)
        self.model, self.num_envs, self.decimation = model, num_envs, decimation
        self.device = device
        wp.init()
        self._device = wp.device_from_torch(device)
        self._stream: wp.Stream | None = None
        self._graphs: dict[tuple[Any, ...], wp.Graph] = {}
        with wp.ScopedDevice(self._device):
            self._m, self._d = put(cfg, model, num_envs)
            self._synchronize()
            self.repeats_exactly = device.type == "cpu" or (
                cfg.deterministic and has_ordered_rows(model, self._m)
            )
            if cfg.deterministic and not self.repeats_exactly:
                logger.warning(
                    "env.sim.deterministic=true orders sums, but mujoco_warp orders neither "
                    "contacts nor constraints: runs of this task may differ on a GPU."
                )
            self._data = DataTensors(model, self._d, names)
            self.substeps = self._data.keep_substeps(cfg.substep_fields, decimation)
            self._params = ParamTensors(model, self._m, cfg.model_fields)
            self.data, self.params = self._data.fields, self._params.fields
            self._bind()
            # With derived fields, the refresh after a step is the first half of the next one, which
            # saves one position and velocity pass per control step.
            self._split = (
                self._data.has_derived
                and model.opt.integrator in _SPLIT_INTEGRATORS
                and not model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP
                and not model.nmocap  # whose new poses would count a physics step late
            )
            with compiled_once(Path(wp.config.kernel_cache_dir), self._kernels(cfg), str(device)):
                self._record(cfg.graph and self.can_record())
        self.reset(torch.ones(num_envs, dtype=torch.bool, device=device))
        self.overflow()
        self._overflow_kinds.zero_()  # the model's own pose, in which recording began, is no task's

    def step(self) -> None:
        self.num_changes += 1
        self._launch(self._step)
        self._data.convert()

    def substep(self, number: int) -> None:
        self.num_changes += 1
        self._launch(self._substep, number)
        self._data.convert()

    def prepare_substeps(self) -> None:
        with wp.ScopedDevice(self._device):
            self._capture([(self._substep, number) for number in range(self.decimation)])
        self.reset(torch.ones(self.num_envs, dtype=torch.bool, device=self.device))
        self.overflow()

    def reset(
        self,
        mask: torch.Tensor,
        qpos: torch.Tensor | None = None,
        qvel: torch.Tensor | None = None,
    ) -> None:
        self.num_changes += 1
        self._overflow_before_reset |= self._overflow
        self._mask.copy_(mask)
        self._qpos.copy_(self._qpos0 if qpos is None else qpos)
        if qvel is None:
            self._qvel.zero_()
        else:
            self._qvel.copy_(qvel)
        self._launch(self._reset)
        self._data.convert()

    def set_velocity(self, mask: torch.Tensor, qvel: torch.Tensor) -> None:
        self.num_changes += 1
        self.num_pushes += 1
        self._mask.copy_(mask)
        self._qvel.copy_(qvel)
        self._launch(self._push)
        self._data.convert()

    def _apply_params(self, mask: torch.Tensor | None) -> None:
        self.num_changes += 1
        self._params.convert()
        if self._params.constants:
            self._launch(self._apply)

    @between_graphs
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
        shape = origins.shape[:2]
        if origins.stride(0) == directions.stride(0) == 0:  # shared by all environments
            origins, directions = origins[:1], directions[:1]
        length = directions.norm(dim=-1, keepdim=True)
        directions = directions / length  # else rays miss triangles
        distance = torch.empty(shape, device=self.device)
        geom = torch.empty(shape, dtype=torch.int32, device=self.device)
        normal = torch.empty((*shape, 3), device=self.device)
        excluded = exclude_body
        if isinstance(excluded, int):
            excluded = torch.full((shape[1],), excluded, dtype=torch.int32, device=self.device)
        groups = [-1] * mujoco.mjNGROUP
        if geom_groups is not None:
            groups = [int(group in geom_groups) for group in range(mujoco.mjNGROUP)]
        with self._scope():
            if not self._data.has_derived:
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
        if normals is not None:
            normals.copy_(normal.masked_fill_(geom.unsqueeze(-1) < 0, 0.0))
        return torch.where(geom < 0, distance, distance / length.squeeze(-1)), geom.long()

    def pictures(
        self,
        cfg: PictureCfg,
        frames: Frames,
        *,
        wanted: torch.Tensor,
        slot: torch.Tensor,
        num_threads: int = 1,
    ) -> WarpPictures:
        with self._scope():
            return WarpPictures(
                cfg,
                self.model,
                self._m,
                self._d,
                self.params,
                frames,
                wanted=wanted,
                slot=slot,
                scope=self._scope,
                records=self._records,
            )

    def bad(self) -> torch.Tensor:
        # NaN compares false. Warp does not reset on its own, so an unstable state stays.
        values = torch.cat((self.data.qpos, self.data.qvel, self._qacc), dim=1)
        return ~(values.abs() < VALUE_MAX).all(dim=1)

    def overflow(self) -> torch.Tensor:
        flags = self._overflow_before_reset | self._overflow
        self._overflow_kinds |= flags
        self._overflow_before_reset.zero_()
        self._overflow.zero_()
        return (flags & _OVERFLOWS) != 0

    def contact_memory(self) -> tuple[int, int]:
        """Return the room that the last physics step used, or would have used.

        Returns:
            Contacts per environment, averaged, as all share one buffer; and constraint rows of
            the environment with the most.
        """
        contacts = int(torch.maximum(*map(wp.to_torch, (self._d.nacon, self._d.ncollision))))
        return -(-contacts // self.num_envs), int(wp.to_torch(self._d.nefc).max())

    def overflow_advice(self) -> str:
        kinds = int(np.bitwise_or.reduce(self._overflow_kinds.cpu().numpy()))
        contacts, rows = self.contact_memory()
        limits = (
            ("contacts", _CONTACT_OVERFLOWS, self._d.naconmax // self.num_envs, contacts),
            ("constraints", _CONSTRAINT_OVERFLOWS, self._d.njmax, rows),
        )
        advice = [
            f"env.sim.num_{name}_max is {limit}, which is too small: "
            f"raise it to {max(2 * limit, 2 * used)}."
            for name, flags, limit, used in limits
            if kinds & flags
        ]
        return " ".join(advice) or "No contact or constraint buffer has been full."

    def state(self) -> dict[str, torch.Tensor]:
        values = {"rows": self._rows()}
        values |= {f"data.{name}": tensor for name, tensor in self.data.items()}
        values |= {f"params.{name}": tensor for name, tensor in self.params.items()}
        values |= {f"constants.{name}": tensor for name, tensor in self._params.constants.items()}
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in values.items()}

    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        self.num_changes += 1
        for name, tensor in self.params.items():
            tensor.copy_(state[f"params.{name}"])
        self._params.convert()
        # The derived constants are copied too: recomputed, they would differ in the last bit from
        # those that MuJoCo's compiler wrote in double precision.
        for name, tensor in self._params.constants.items():
            tensor.copy_(state[f"constants.{name}"])
        rows = state["rows"].to(self.device)
        with self._scope():
            mjw.set_state(self._m, self._d, wp.from_torch(rows), _STATE)
            if self.model.nmocap:
                self.mocap_pos.copy_(wp.to_torch(self._d.mocap_pos))
                self.mocap_quat.copy_(wp.to_torch(self._d.mocap_quat))
            self._refresh()
        # As in the CPU backend, fields are copied: those of the acceleration stage belong to the
        # last physics step.
        for name, tensor in self.data.items():
            tensor.copy_(state[f"data.{name}"])
        self.overflow()

    def model_of(self, index: int) -> mujoco.MjModel:
        model = copy_model(self.model)
        self.write_params(model, index)
        if self._params.constants:
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
        self._show(self._mocap, self._all)
        for substep in range(self.decimation):
            if self._split:
                mjw.step2(self._m, self._d)
            else:
                mjw.step(self._m, self._d)
            self._show(self._data.substep_mirrors[substep], self._all)
            last = substep == self.decimation - 1
            if last:
                self._show(self._data.acceleration_mirrors, self._all)
            if self._split or (last and self._data.has_derived):
                mjw.step1(self._m, self._d)
        self._show(self._data.smooth_mirrors, self._all)

    def _substep(self, number: int) -> None:
        """Run one physics step, and compute the fields of the state after it."""
        self._show(self._mocap, self._all)
        if self._split:
            mjw.step2(self._m, self._d)
        else:
            mjw.step(self._m, self._d)
        self._show(self._data.substep_mirrors[number], self._all)
        self._show(self._data.acceleration_mirrors, self._all)
        if self._split or self._data.has_derived:
            mjw.step1(self._m, self._d)
        self._show(self._data.smooth_mirrors, self._all)

    def _reset(self) -> None:
        """Reset the environments of the mask to the targets; the others are recomputed in place."""
        mjw.reset_data(self._m, self._d, self._mask_rows)
        self._show(self._mocap, self._all)
        self._show(self._targets, self._mask_rows)
        if self._data.needs_acceleration:
            mjw.forward(self._m, self._d)
        elif self._data.has_derived:
            mjw.step1(self._m, self._d)
        self._show(self._data.acceleration_mirrors + self._data.smooth_mirrors, self._mask_rows)
        if self._split and self._data.needs_acceleration:
            # As step1() leaves it: touch sensors add to old values, and the fused factor of
            # forward() may differ in the last bit from the one that set_state() recomputes.
            self._d.sensordata.zero_()
            mjw.factor_m(self._m, self._d)

    def _push(self) -> None:
        """Set the velocities of the mask's environments; the others are recomputed in place."""
        self._show(self._targets[1:2], self._mask_rows)
        if self._data.has_derived:
            mjw.step1(self._m, self._d)
        self._show(self._data.smooth_mirrors, self._mask_rows)

    def _apply(self) -> None:
        mjw.set_const(self._m, self._d, restore=False)
        self._refresh()

    def _refresh(self) -> None:
        """Recompute the basis of the next physics step and of the position and velocity fields."""
        if self._data.has_derived:
            mjw.fwd_position(self._m, self._d)
            mjw.fwd_velocity(self._m, self._d)

    def _show(self, mirrors: Sequence[Mirror], rows: wp.array) -> None:
        for mirror in mirrors:
            mirror.update(rows)

    def _bind(self) -> None:
        """Create the tensors that tasks write, and those that the graphs read."""
        num_envs, model = self.num_envs, self.model
        self.ctrl = wp.to_torch(self._d.ctrl)
        self.xfrc_applied = wp.to_torch(self._d.xfrc_applied)
        self.mocap_pos, self.mocap_quat = mocap_poses(model, num_envs, self.device)
        self._mocap = []
        if model.nmocap:  # a reset would write the model's own
            shown = wp.to_torch(self._d.mocap_pos), wp.to_torch(self._d.mocap_quat)
            self._mocap = [Mirror(self.mocap_pos, shown[0]), Mirror(self.mocap_quat, shown[1])]
        self._qacc, self._overflow = wp.to_torch(self._d.qacc), wp.to_torch(self._d.overflow)
        self._overflow_before_reset = torch.zeros_like(self._overflow)
        self._overflow_kinds = torch.zeros_like(self._overflow)
        self._all = wp.ones(num_envs, dtype=bool)
        self._mask = torch.ones(num_envs, dtype=torch.bool, device=self.device)
        self._mask_rows = wp.from_torch(self._mask)
        self._qpos0 = wp.to_torch(self._m.qpos0)
        self._qpos = torch.zeros(num_envs, model.nq, device=self.device)
        self._qvel = torch.zeros(num_envs, model.nv, device=self.device)
        self._targets = [Mirror(self._qpos, self.data.qpos), Mirror(self._qvel, self.data.qvel)]
        history = initial_history(model)
        if history is not None:
            rows = torch.as_tensor(history, dtype=torch.float32, device=self.device)
            rows = rows.repeat(num_envs, 1)
            self._targets.append(Mirror(rows, wp.to_torch(self._d.history)))

    def _rows(self) -> torch.Tensor:
        """Return MuJoCo's integration state, float32 ``(num_envs, size)``."""
        size = mujoco.mj_stateSize(self.model, _STATE)
        rows = torch.zeros(self.num_envs, size, device=self.device)
        with self._scope():
            mjw.get_state(self._m, self._d, wp.from_torch(rows), _STATE)
        return rows

    def _kernels(self, cfg: SimulationCfg) -> str:
        """Return a name for the kernels, which follow from model, settings and kind of device."""
        model = np.empty(mujoco.mj_sizeModel(self.model), np.uint8)
        mujoco.mj_saveModel(self.model, None, model)
        digest = hashlib.blake2b(model.tobytes(), digest_size=16)
        arch = self._device.arch if self._device.is_cuda else "cpu"
        digest.update(f"{cfg} {arch} {metadata.version('mujoco-warp')}".encode())
        return digest.hexdigest()

    def _record(self, graph: bool) -> None:
        """Run each function once, which compiles its kernels, and capture it."""
        self._records = graph
        functions = [self._reset, self._step, self._push]
        if self._params.constants:
            functions.append(self._apply)
        self._capture([(function,) for function in functions])

    def _capture(self, calls: Sequence[tuple[Any, ...]]) -> None:
        """Make each call once, and capture it: a function and its arguments."""
        self._synchronize()
        for function, *args in calls:
            function(*args)
            if self._records:
                with collection_suspended(), wp.ScopedCapture(self._device) as capture:
                    function(*args)
                # By name, as a bound method would keep the simulation alive.
                self._graphs[function.__name__, *args] = capture.graph
        self._synchronize()

    def can_record(self) -> bool:
        """Return whether this GPU's driver can record a step, and warn if it cannot."""
        if self.device.type == "cpu":
            return True
        lacks = None
        if not wp.is_mempool_enabled(self._device):
            lacks = "no memory pool (wp.set_mempool_enabled)"
        elif not wp.is_conditional_graph_supported():
            lacks = "no loops in CUDA graphs, which need a driver for CUDA 12.4 or newer"
        if lacks is not None:
            logger.warning(
                "Physics is not recorded as graphs, and so many times slower: %s has %s.",
                self._device.name,
                lacks,
            )
        return lacks is None

    @between_graphs  # a graph of torch cannot contain one of Warp's
    def _launch(self, function: Callable[..., None], *args: int) -> None:
        graph = self._graphs.get((function.__name__, *args))
        with self._scope():
            if graph is None:
                function(*args)
            else:
                wp.capture_launch(graph)

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
        """Wait for all streams: Warp builds and captures on its own, as PyTorch's cannot record."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def warm_kernel_cache(cfg: SimulationCfg, model: mujoco.MjModel, device: torch.device) -> float:
    """Compile the kernels of a model, rays and checkpoints included, into Warp's cache on disk.

    Args:
        cfg: Physics settings, with the fields that the task declares.
        model: The compiled model. It is not modified.
        device: Device to compile for.

    Returns:
        Seconds taken: tens for a new model, a few for one in the cache.
    """
    start = time.perf_counter()
    model = copy_model(model)
    model.opt.timestep = cfg.dt
    simulation = WarpSimulation(cfg, model, 2, decimation=1, device=device)
    directions = torch.ones(2, 1, 3, device=device)
    simulation.rays(torch.zeros_like(directions), directions)
    simulation.set_state(simulation.state())
    wp.synchronize_device(wp.device_from_torch(device))
    return time.perf_counter() - start
