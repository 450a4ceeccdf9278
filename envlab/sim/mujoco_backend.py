"""The CPU backend: ``mujoco.batch.Batch`` (MuJoCo >= 3.17), with native threads.

Results are bit-identical at any number of threads.

``Batch`` holds float64 rows; the tensors that tasks see are float32 mirrors, filled after every
call. Surprises of ``mujoco.batch``, and this file's answers (each has a test in ``tests/sim``):

- A derived field that a call did not compute holds another simulation's value. So a step requests
  the velocity stage if any derived field is declared, and fields that need more are refused.
- After a reset and a forward pass up to the velocity stage, sensors of the acceleration stage are
  stale. So the environments that are reset run the acceleration stage.
- ``set_const`` gives meshes the radius that they have in the shared model, whatever mesh a
  simulation has; those declared in ``geom_rbound`` are written again.
- Contact and constraint arrays cannot be bound: :func:`envlab.sim.simulation.check_fields`.
- ``torch.from_numpy`` warns about read-only outputs, and the tensor would share memory that each
  call rewrites: hence the mirrors.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np
import torch
from mujoco import batch

from envlab.errors import ConfigurationError, SimulationError, did_you_mean
from envlab.sim.cfg import Frames, PictureCfg, Pictures
from envlab.sim.host import on_host
from envlab.sim.recording import between_graphs
from envlab.sim.simulation import (
    Fields,
    Simulation,
    SimulationCfg,
    check_fields,
    initial_history,
    mocap_poses,
)

logger = logging.getLogger(__name__)

NUM_THREADS_MAX = 32
"""More were slower on a large two-socket machine (320 versus 64: public report, UniLab #659)."""

_MESH = int(mujoco.mjtGeom.mjGEOM_MESH)
_STAGE_NONE = int(mujoco.mjtStage.mjSTAGE_NONE)
_STAGE_VEL = int(mujoco.mjtStage.mjSTAGE_VEL)
_STAGE_ACC = int(mujoco.mjtStage.mjSTAGE_ACC)
_NO_CONTACTS = int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
_BAD_WARNINGS = np.array(
    [
        int(getattr(mujoco.mjtWarning, f"mjWARN_BAD{name}"))
        for name in ("QPOS", "QVEL", "QACC", "CTRL")
    ]
)
_FULL_WARNINGS = [
    int(getattr(mujoco.mjtWarning, f"mjWARN_{name}")) for name in ("CONTACTFULL", "CNSTRFULL")
]
_ROW_FIELDS = frozenset(("time", "qpos", "qvel", "act", "ctrl", "mocap_pos", "mocap_quat"))
"""Fields in the state row, which are current after a step without a further stage."""
_LATE_FIELDS = frozenset(("actuator_force", "qacc", "qfrc_actuator", "qfrc_constraint"))
"""Fields of the acceleration stage: of the last physics step, whatever is computed later."""

_VIEWS = (
    *("_batch", "_sources", "_params", "_qpos_rows", "_qvel_rows", "_ctrl_rows", "_wrench_rows"),
    *("_warning_counts", "_warning_pairs", "_mocap", "_disable_rows"),
)
"""The attributes that hold the batch or its memory."""


@functools.cache
def warn_of_sparse_newton() -> None:
    """Warn, once in a process."""
    logger.warning(
        "MuJoCo 4.0.0 may compute wrong accelerations for this model: its Newton solver is faulty "
        "where the constraint Jacobian is sparse, as it is from 60 degrees of freedom on "
        "(google-deepmind/mujoco#3767). Install mujoco 4.0.1 or newer, or write "
        "<option jacobian='dense'/> in the model."
    )


def check_sparse_newton(model: mujoco.MjModel, version: str = mujoco.__version__) -> None:
    """Warn, once, about a model that the one faulty version of MuJoCo solves wrongly.

    Its sparse Cholesky factorisation merges rows that do not belong together. The bug appeared in
    4.0.0 and is fixed in 4.0.1.
    """
    is_newton = model.opt.solver == mujoco.mjtSolver.mjSOL_NEWTON
    if version == "4.0.0" and is_newton and mujoco.mj_isSparse(model):
        warn_of_sparse_newton()


class MujocoSimulation(Simulation):
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
        route_mujoco_warnings()
        check_sparse_newton(model)
        fields = check_fields(model, cfg.data_fields, cfg.substep_fields)
        threads = cfg.num_threads or min(num_threads or 1, NUM_THREADS_MAX)
        self.model, self.num_envs, self.decimation = model, num_envs, decimation
        self.device = torch.device("cpu")
        self._batch = batch.Batch(model, num_envs, threads)
        self._has_derived = not _ROW_FIELDS.issuperset(fields)
        self._stage = _STAGE_VEL if _lags_behind(model, fields) else _STAGE_NONE
        self._deferred = _STAGE_NONE

        self._early_sensors = np.flatnonzero(
            np.repeat(model.sensor_needstage, model.sensor_dim) != _STAGE_ACC
        )

        self._sources = {name: self._bind(name) for name in fields}
        mirrors = {
            name: torch.zeros(source.shape, dtype=torch.float32)
            for name, source in self._sources.items()
        }
        self._mirrors = {name: mirror.numpy() for name, mirror in mirrors.items()}
        self.data = Fields("data", "env.sim.data_fields", mirrors)
        self._keep_substeps(cfg.substep_fields)
        self._params = {name: self._expand(name) for name in cfg.model_fields}
        self.params = Fields(
            "model",
            "env.sim.model_fields",
            {
                name: torch.from_numpy(rows.astype(np.float32))
                for name, rows in self._params.items()
            },
        )
        self._qpos_rows, self._qvel_rows = self._batch.bind("qpos"), self._batch.bind("qvel")
        self.ctrl = torch.zeros(num_envs, model.nu)
        self._ctrl, self._ctrl_rows = self.ctrl.numpy(), self._batch.bind("ctrl")
        self.xfrc_applied = torch.zeros(num_envs, model.nbody, 6)
        self._wrench, self._wrench_rows = (
            self.xfrc_applied.numpy(),
            self._batch.bind("xfrc_applied"),
        )
        self._wrench_used = False
        self.mocap_pos, self.mocap_quat = mocap_poses(model, num_envs, self.device)
        self._mocap = (
            (self._batch.bind("mocap_pos"), self.mocap_pos.numpy()),
            (self._batch.bind("mocap_quat"), self.mocap_quat.numpy()),
        )[: 2 * bool(model.nmocap)]
        self._batch.reset(stage=_STAGE_NONE)
        history = initial_history(model)
        if history is not None:
            self._batch.bind("history")[0] = history
        self._reset_row = self._batch.state[0].copy()
        self._raised = np.zeros(num_envs, dtype=bool)
        self._warning_counts = self._batch.warning[:, :, 1]
        # Pairs of the last information (low half) and the count (high half), as one number each.
        self._warning_pairs = self._batch.warning.view(np.int64)
        self._warnings_seen = np.zeros((num_envs, len(_BAD_WARNINGS)), dtype=np.int32)
        self._warning_total = 0
        self._none_bad = torch.zeros(num_envs, dtype=torch.bool)
        self._full_seen = np.zeros((num_envs, len(_FULL_WARNINGS)), dtype=np.int32)
        self.reset(torch.ones(num_envs, dtype=torch.bool))

    @between_graphs  # NumPy and MuJoCo, which torch cannot record
    def step(self) -> None:
        self.num_changes += 1
        self._push()
        steps = self._num_recorded
        if steps:
            # A rollout records natively, which costs less than separate calls. It stops simulations
            # in which MuJoCo warns; bad() and overflow() report these.
            names = tuple(self._records)
            self._call(self._batch.rollout, steps, record=names, out=self._records)
        if steps < self.decimation:
            self._call(self._batch.step, nstep=self.decimation - steps, stage=self._stage)
        self._pull()
        for name, records in self._records.items():
            shown = self._shown_substeps[name]
            np.copyto(shown[:, :steps], records, casting="same_kind")
            if steps < self.decimation:
                np.copyto(shown[:, steps], self._mirrors[name])

    @between_graphs
    def substep(self, number: int) -> None:
        self.num_changes += 1
        self._push()
        self._call(self._batch.step, nstep=1, stage=self._stage)
        self._pull()
        for name, shown in self._shown_substeps.items():
            np.copyto(shown[:, number], self._mirrors[name])

    def defer_refresh(self) -> None:
        self._deferred, self._stage = self._stage, _STAGE_NONE
        if self._deferred != _STAGE_NONE:
            self._disable_rows = self._batch.expand("opt.disableflags")

    @between_graphs
    def refresh(self) -> None:
        if self._deferred != _STAGE_NONE:
            self._refresh_rows(None)
            self._pull()

    def _refresh_rows(self, rows: np.ndarray | None) -> None:
        """Compute the fields that wait, without contacts, on which none of them depends.

        Finding contacts is most of these stages: 5 us for Go2 without it, and 13 us with it on a
        height field.
        """
        before = self._disable_rows.copy()
        self._disable_rows |= _NO_CONTACTS
        self._call(self._batch.forward, rows, stage=self._deferred)
        self._disable_rows[:] = before

    @between_graphs
    def reset(
        self,
        mask: torch.Tensor,
        qpos: torch.Tensor | None = None,
        qvel: torch.Tensor | None = None,
    ) -> None:
        rows = self._rows_to_change(mask)
        if not len(rows):
            return
        # A row is a simulation's whole state, so this is Batch.reset without waking its threads,
        # which took longer than everything else in a reset of a few environments.
        self._batch.state[rows] = self._reset_row
        for target, source in self._mocap:
            target[rows] = source[rows]
        if qpos is not None:
            self._qpos_rows[rows] = qpos.numpy()[rows]
        if qvel is not None:
            self._qvel_rows[rows] = qvel.numpy()[rows]
        # If no forward pass follows, nothing else would notice a state that is not finite.
        self._raised[rows] = ~np.isfinite(self._batch.state[rows]).all(axis=1)
        # MuJoCo's own reset of an unstable simulation restarts the counts at one, so a second
        # failure would leave them unchanged.
        self._warning_counts[rows[:, None], _BAD_WARNINGS] = 0
        self._warnings_seen[rows] = 0
        self._ctrl[rows] = 0.0
        if self._wrench_used:
            self._wrench[rows] = 0.0
        if self._has_derived:
            self._call(self._batch.forward, rows, stage=_STAGE_ACC)
        for name, source in self._sources.items():
            self._mirrors[name][rows] = source[rows]

    @between_graphs
    def set_velocity(self, mask: torch.Tensor, qvel: torch.Tensor) -> None:
        before = self.num_changes
        rows = self._rows_to_change(mask)
        self.num_pushes += self.num_changes - before
        if not len(rows):
            return
        self._qvel_rows[rows] = qvel.numpy()[rows]
        self._raised[rows] |= ~np.isfinite(self._qvel_rows[rows]).all(axis=1)
        if self._stage != _STAGE_NONE:
            self._call(self._batch.forward, rows, stage=_STAGE_VEL)
        elif self._deferred != _STAGE_NONE:
            self._refresh_rows(rows)
        for name, source in self._sources.items():
            if name == "sensordata":
                columns = np.ix_(rows, self._early_sensors)
                self._mirrors[name][columns] = source[columns]
            elif name not in _LATE_FIELDS:
                self._mirrors[name][rows] = source[rows]

    @between_graphs
    def _apply_params(self, mask: torch.Tensor | None) -> None:
        self.num_changes += 1
        rows = None if mask is None else mask.numpy()
        for name, target in self._params.items():
            source = self.params[name].numpy()
            if rows is None:
                np.copyto(target, source, casting="unsafe")
            else:
                target[rows] = source[rows]
        self._set_const(rows)

    def _set_const(self, rows: np.ndarray | None) -> None:
        self._batch.set_const(rows)
        radii = self._params.get("geom_rbound")
        if radii is not None:
            types = self._params.get("geom_type", self.model.geom_type)
            np.copyto(radii, self.params.geom_rbound.numpy(), where=types == _MESH)

    def apply_wrench(
        self, body_ids: Sequence[int], force: torch.Tensor, torque: torch.Tensor
    ) -> None:
        super().apply_wrench(body_ids, force, torque)
        self._wrench_used = True

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
        groups = None
        if geom_groups is not None:
            groups = np.isin(np.arange(mujoco.mjNGROUP), list(geom_groups)).astype(np.uint8)
        rows = None if mask is None else np.flatnonzero(mask.numpy())
        # The batch computes kinematics from the state rows, so poses are always current, even if
        # not declared.
        found = self._batch.ray(
            _for_rays(origins, rows),
            _for_rays(directions, rows),
            geomgroup=groups,
            bodyexclude=exclude_body if isinstance(exclude_body, int) else exclude_body.numpy(),
            ids=rows,
            normal=normals is not None,
        )
        if normals is not None:
            normals[slice(None) if rows is None else torch.from_numpy(rows)] = torch.from_numpy(
                found[2]
            ).float()
        distance, geom = torch.from_numpy(found[0]).float(), torch.from_numpy(found[1]).long()
        if mask is None:
            return distance, geom
        shape = origins.shape[:2]
        return (
            torch.full(shape, -1.0).masked_scatter_(mask[:, None], distance),
            torch.full(shape, -1).masked_scatter_(mask[:, None], geom),
        )

    @between_graphs
    def pictures(
        self,
        cfg: PictureCfg,
        frames: Frames,
        *,
        wanted: torch.Tensor,
        slot: torch.Tensor,
        num_threads: int = 1,
    ) -> Pictures:
        try:
            from envlab.sim.pictures import CpuPictures
        except ModuleNotFoundError as error:
            raise SimulationError(
                f"A camera needs the package {error.name!r}, which is not installed. "
                "Install it with: pip install -c constraints.txt warp-lang"
            ) from error
        return CpuPictures(
            cfg,
            self.model,
            self.data,
            self.params,
            frames,
            wanted=wanted,
            slot=slot,
            num_threads=num_threads,
        )

    def bad(self) -> torch.Tensor:
        # MuJoCo automatically resets an unstable simulation and counts it here. Warnings are rare,
        # and their total is much cheaper to read than their rows: 2 us for 1024 simulations, while
        # the counts alone, which are not contiguous, take 12.
        total = int(self._warning_pairs.sum())
        if total == self._warning_total and not self._raised.any():
            return self._none_bad
        counts = self._warning_counts[:, _BAD_WARNINGS]
        bad = (counts != self._warnings_seen).any(axis=1) | self._raised
        if not bad.any():
            self._warning_total = total
        return torch.from_numpy(bad)

    def overflow(self) -> torch.Tensor:
        counts = self._warning_counts[:, _FULL_WARNINGS]
        full = (counts > self._full_seen).any(axis=1)
        self._full_seen = counts
        return torch.from_numpy(full)

    def overflow_advice(self) -> str:
        return (
            f"MuJoCo's arena of {self.model.narena} bytes is full. Raise it in the MJCF: "
            f'<size memory="{max(1, 2 * self.model.narena // 2**20)}M"/>.'
        )

    def state(self) -> dict[str, torch.Tensor]:
        values = {
            "rows": torch.from_numpy(self._batch.state.copy()),
            "ctrl": self.ctrl.clone(),
            "xfrc_applied": self.xfrc_applied.clone(),
        }
        values |= {f"data.{name}": tensor.clone() for name, tensor in self.data.items()}
        # Unconverted: values never written to have more digits than the tensors show.
        for name, rows in self._params.items():
            values[f"params.{name}"] = torch.from_numpy(rows.copy())
        return values

    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        self.num_changes += 1
        for name, target in self._params.items():
            rows = state[f"params.{name}"]
            self.params[name].copy_(rows)
            np.copyto(target, rows.numpy(), casting="unsafe")
        if self._params:
            self._set_const(None)
        np.copyto(self._batch.state, state["rows"].numpy())
        self.ctrl.copy_(state["ctrl"])
        for source, target in self._mocap:
            np.copyto(target, source, casting="same_kind")
        self.xfrc_applied.copy_(state["xfrc_applied"])
        self._wrench_used |= bool(self.xfrc_applied.any())
        # Fields are copied rather than recomputed: sensors of the acceleration stage belong to the
        # last physics step and would differ after a forward pass.
        for name, tensor in self.data.items():
            tensor.copy_(state[f"data.{name}"])
        self._raised[:] = False
        self._warnings_seen = self._warning_counts[:, _BAD_WARNINGS]

    def model_of(self, index: int) -> mujoco.MjModel:
        return self._batch.get_model(index)

    def data_of(self, index: int) -> mujoco.MjData:
        data = self._batch.get_data(index)
        mujoco.mj_forward(self.model_of(index), data)
        return data

    def close(self) -> None:
        # The threads end with the batch, which any view of its memory keeps alive.
        for name in _VIEWS:
            self.__dict__.pop(name, None)

    def _keep_substeps(self, names: Sequence[str]) -> None:
        """Allocate fields of every physics step; a lone physics step is ``data`` itself."""
        # Only step() can refresh early fields after the last physics step; see the module.
        is_last_apart = self._stage != _STAGE_NONE
        self._num_recorded = self.decimation - is_last_apart if names and self.decimation > 1 else 0
        self._records: dict[batch.RecordItem, np.ndarray] = {}
        self._shown_substeps: dict[batch.RecordItem, np.ndarray] = {}
        shown = {name: self.data[name].unsqueeze(1) for name in names}
        if self._num_recorded:
            for name in names:
                size = self._mirrors[name].shape[1:]
                shown[name] = torch.zeros(self.num_envs, self.decimation, *size)
                self._shown_substeps[name] = shown[name].numpy()
                self._records[name] = np.zeros(
                    (self.num_envs, self._num_recorded, *size), self._sources[name].dtype
                )
        self.substeps = Fields("substep", "env.sim.substep_fields", shown)

    def _rows_to_change(self, mask: torch.Tensor) -> np.ndarray:
        """Return indices of the environments of ``mask``, and count the change.

        A recorded step counts one each time, as on a GPU, where the rows are not read.
        """
        rows = np.flatnonzero(mask.numpy())
        self.num_changes += len(rows) > 0 or not on_host(self.device)
        return rows

    def _call(self, function: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        """Run a batch call; simulations in which MuJoCo raises are bad, the others continue."""
        try:
            function(*args, **kwargs)
        except batch.SimulationError as error:
            self._raised[error.ids] = True
            logger.warning("%s", error)

    def _push(self) -> None:
        """Hand to MuJoCo what tasks have written."""
        np.copyto(self._ctrl_rows, self._ctrl)
        if self._wrench_used:
            np.copyto(self._wrench_rows, self._wrench)
        for target, source in self._mocap:
            np.copyto(target, source)

    def _pull(self) -> None:
        for name, source in self._sources.items():
            np.copyto(self._mirrors[name], source, casting="same_kind")

    def _bind(self, name: str) -> np.ndarray:
        try:
            return self._batch.bind(name)
        except (AttributeError, ValueError) as error:
            raise ConfigurationError(
                f"env.sim.data_fields names {name!r}, which the mujoco backend cannot read: {error}"
            ) from error

    def _expand(self, name: str) -> np.ndarray:
        try:
            return self._batch.expand(name)
        except (AttributeError, ValueError) as error:
            raise ConfigurationError(
                f"An event or env.sim.model_fields names {name!r}, which is not a per-environment "
                f"model field.{did_you_mean(name, batch.MODEL_FIELDS)}"
            ) from error


def _lags_behind(model: mujoco.MjModel, fields: Sequence[str]) -> bool:
    """Return whether some of ``fields`` are older than the state when physics steps end.

    Fields and sensors of the acceleration stage are not: they belong to the last physics step,
    whatever is computed later. A refresh cost 15 % of a quadruped's step.
    """
    derived = set(fields) - _ROW_FIELDS - _LATE_FIELDS
    acceleration_only = bool((np.asarray(model.sensor_needstage) == _STAGE_ACC).all())
    return bool(derived - {"sensordata"}) or ("sensordata" in derived and not acceleration_only)


def _for_rays(vectors: torch.Tensor, rows: np.ndarray | None) -> np.ndarray:
    """Return vectors of some environments as float64; shared ones once instead of N times.

    Args:
        vectors: ``(num_envs, num_rays, 3)``; shared ones are expanded views, with stride 0.
        rows: Indices of the environments; None: all.
    """
    values = vectors.numpy()
    if vectors.stride(0) == 0:
        values = values[0]
    elif rows is not None:
        values = values[rows]
    return values.astype(np.float64)


_WARNINGS_LOUD = 5
_warning_count = 0


def route_mujoco_warnings() -> None:
    """Send MuJoCo's warnings to our log; by default, MUJOCO_LOG.TXT in the current folder."""
    mujoco.set_mju_user_warning(_log_warning)


def _log_warning(message: str) -> None:
    """Log the first warnings, the rest only at debug level: a diverging batch emits thousands."""
    global _warning_count
    _warning_count += 1
    level = logging.WARNING if _warning_count <= _WARNINGS_LOUD else logging.DEBUG
    logger.log(level, "MuJoCo: %s", message)
