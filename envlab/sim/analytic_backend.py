"""The ``analytic`` backend: batched torch dynamics of contact-free systems, on CPU and GPU.

It has no solver: the accelerations of a cart-pole or a drone are formulas (``_analytic_planar.py``,
``_analytic_free.py``) with constants from the compiled model, and its step is MuJoCo's. In float32
it stays within 1e-4 of MuJoCo's trajectories (``tests/sim/test_analytic_backend.py``).

The state is stored as rows, ``(nq + nv, num_envs)``, on which each operation runs without strides;
:attr:`AnalyticSimulation.data` shows it transposed. Every operation is elementwise, so an
environment's future does not depend on the number of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import mujoco
import numpy as np
import torch

from envlab.errors import ConfigurationError, SimulationError, did_you_mean
from envlab.sim._analytic_free import FreeBody, motor_wrenches
from envlab.sim._analytic_model import (
    BodyPoses,
    Value,
    control_bounds,
    dot,
    find_links,
    kinds_of,
    shared,
)
from envlab.sim._analytic_planar import PlanarChain
from envlab.sim.host import SMALL_BATCH, OneThread, on_host
from envlab.sim.simulation import Fields, Simulation, SimulationCfg, check_fields, copy_model

DATA_FIELDS = ("qpos", "qvel", "time", "xpos", "xquat")
"""MjData fields that this backend computes."""

MODEL_FIELDS = ("body_mass", "body_inertia", "dof_damping", "dof_armature")
"""MjModel fields that may differ between environments."""

_STATE_MAX = 1e10
"""Larger positions and velocities count as a breakdown (MuJoCo's mjMAXVAL)."""


class AnalyticSimulation(Simulation):
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
        fields = check_fields(model, cfg.data_fields)
        _check_supported("data", fields, DATA_FIELDS)
        if cfg.substep_fields:
            raise ConfigurationError(
                f"env.sim.substep_fields names {cfg.substep_fields[0]!r}, but the analytic backend "
                "keeps no data of single physics steps. Use env.sim.backend=mujoco (or mujoco_warp "
                "on a GPU)."
            )
        _check_supported("model", cfg.model_fields, MODEL_FIELDS)
        links = find_links(model)
        self.model, self.num_envs, self.decimation, self.device = (
            model,
            num_envs,
            decimation,
            device,
        )
        is_free = kinds_of(model) == ["free"]
        self._dynamics = (FreeBody if is_free else PlanarChain)(model, links, device)
        self._state = torch.zeros(model.nq + model.nv, num_envs, device=device)
        self._qpos, self._qvel = self._state[: model.nq].T, self._state[model.nq :].T
        self._qpos0 = torch.as_tensor(model.qpos0, dtype=torch.float32, device=device)
        self._time = torch.zeros(num_envs, device=device)
        self._poses = BodyPoses(model, links, num_envs, device)
        named = {
            "qpos": self._qpos,
            "qvel": self._qvel,
            "time": self._time,
            "xpos": self._poses.xpos,
            "xquat": self._poses.xquat,
        }
        self.data = Fields("data", "env.sim.data_fields", {name: named[name] for name in fields})
        self.substeps = Fields("substep", "env.sim.substep_fields", {})
        self._has_poses, self._has_time = "xpos" in fields or "xquat" in fields, "time" in fields
        self.params = Fields(
            "model", "env.sim.model_fields", {n: self._expand(n) for n in cfg.model_fields}
        )
        self._nominal = {
            name: torch.as_tensor(getattr(model, name), device=device).unsqueeze(0)
            for name in MODEL_FIELDS
        }
        self.ctrl = torch.zeros(model.nu, num_envs, device=device).T
        self._bounds = control_bounds(model).tolist()
        self._gains = self._motors(motor_wrenches(model, links) if is_free else None)
        self.xfrc_applied = torch.zeros(num_envs, model.nbody, 6, device=device)
        self._pushed: list[int] = []
        """Bodies to which wrenches were applied."""
        self._threads = OneThread(device.type == "cpu" and self._state.numel() <= SMALL_BATCH)
        self._none_bad = torch.zeros(num_envs, dtype=torch.bool, device=device)
        self._set_constants()
        self.reset(torch.ones(num_envs, dtype=torch.bool, device=device))

    def step(self) -> None:
        self.num_changes += 1
        with self._threads:
            self._state.copy_(self._next(self._state, self.ctrl, self.xfrc_applied))
        if self._has_time:
            self._time += self.step_dt
        if self._has_poses:
            self._poses.update(self._qpos)

    def reset(
        self,
        mask: torch.Tensor,
        qpos: torch.Tensor | None = None,
        qvel: torch.Tensor | None = None,
    ) -> None:
        self.num_changes += 1
        rows = np.flatnonzero(mask.numpy()) if on_host(self.device) else mask.unsqueeze(1)
        _set_rows(self._qpos, rows, self._qpos0 if qpos is None else qpos)
        _set_rows(self._qvel, rows, qvel)
        _set_rows(self.ctrl, rows, None)
        if self._has_time:
            self._time.masked_fill_(mask, 0.0)
        if self._pushed:
            self.xfrc_applied.masked_fill_(mask[:, None, None], 0.0)
        if self._has_poses:
            self._poses.update(self._qpos)

    def set_velocity(self, mask: torch.Tensor, qvel: torch.Tensor) -> None:
        self.num_changes += 1
        self.num_pushes += 1
        rows = np.flatnonzero(mask.numpy()) if on_host(self.device) else mask.unsqueeze(1)
        _set_rows(self._qvel, rows, qvel)

    def _apply_params(self, mask: torch.Tensor | None) -> None:
        self.num_changes += 1
        self._set_constants()

    def apply_wrench(
        self, body_ids: Sequence[int], force: torch.Tensor, torque: torch.Tensor
    ) -> None:
        super().apply_wrench(body_ids, force, torque)
        self._pushed = sorted({*self._pushed, *(int(body) for body in body_ids)} - {0})

    def rays(
        self,
        origins: torch.Tensor,
        directions: torch.Tensor,
        *,
        geom_groups: Sequence[int] | None = None,
        exclude_body: int | torch.Tensor = -1,
        mask: torch.Tensor | None = None,
        normals: torch.Tensor | None = None,
    ) -> NoReturn:
        raise SimulationError(
            "The analytic backend has no geometry, so it casts no rays. Use "
            "env.sim.backend=mujoco (or mujoco_warp on a GPU)."
        )

    def bad(self) -> torch.Tensor:
        # The norm is small only if all values are.
        if on_host(self.device) and float(torch.linalg.vector_norm(self._state)) < _STATE_MAX:
            return self._none_bad
        return ~(self._state.abs().amax(dim=0) < _STATE_MAX)  # NaN compares false

    def overflow(self) -> torch.Tensor:
        return self._none_bad

    def overflow_advice(self) -> str:
        return "The analytic backend has no contacts, so nothing can overflow."

    def state(self) -> dict[str, torch.Tensor]:
        values = {
            "state": self._state.T.cpu().clone(),
            "time": self._time.cpu().clone(),
            "ctrl": self.ctrl.cpu().clone(),
            "xfrc_applied": self.xfrc_applied.cpu().clone(),
            "pushed": self._is_pushed().expand(self.num_envs, -1).clone(),
        }
        return values | {f"params.{n}": tensor.cpu().clone() for n, tensor in self.params.items()}

    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        self.num_changes += 1
        for name, tensor in self.params.items():
            tensor.copy_(state[f"params.{name}"])
        self._set_constants()
        self._state.copy_(state["state"].T)
        self._time.copy_(state["time"])
        self.ctrl.copy_(state["ctrl"])
        self.xfrc_applied.copy_(state["xfrc_applied"])
        pushed = self._is_pushed() | state["pushed"].any(dim=0)
        self._pushed = pushed.flatten().nonzero().flatten().tolist()
        if self._has_poses:
            self._poses.update(self._qpos)

    def model_of(self, index: int) -> mujoco.MjModel:
        model = copy_model(self.model)
        self.write_params(model, index)
        mujoco.mj_setConst(model, mujoco.MjData(model))
        return model

    def data_of(self, index: int) -> mujoco.MjData:
        model = self.model_of(index)
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = self._qpos[index].cpu(), self._qvel[index].cpu()
        data.ctrl[:], data.time = self.ctrl[index].cpu(), float(self._time[index])
        data.xfrc_applied[:] = self.xfrc_applied[index].cpu()
        mujoco.mj_forward(model, data)
        return data

    def _is_pushed(self) -> torch.Tensor:
        """Return to which bodies wrenches were applied in any environment, bool ``(1, nbody)``."""
        pushed = torch.zeros(1, self.model.nbody, dtype=torch.bool)
        pushed[:, self._pushed] = True
        return pushed

    def _next(
        self, state: torch.Tensor, ctrl: torch.Tensor, xfrc_applied: torch.Tensor
    ) -> torch.Tensor:
        """Return the state after a control step."""
        controls = [
            column if low == -np.inf and high == np.inf else column.clamp(low, high)
            for column, (low, high) in zip(ctrl.unbind(1), self._bounds, strict=True)
        ]
        forces: list[Value] = [dot(*zip(row, controls, strict=True)) for row in self._gains]
        wrenches = [(body, xfrc_applied[:, body].unbind(1)) for body in self._pushed]
        rows: list[Value] = list(state.unbind(0))
        for _ in range(self.decimation):
            rows = self._dynamics.advance(rows, forces, wrenches)
        return torch.stack(rows)  # type: ignore[arg-type]

    def _motors(self, wrenches: np.ndarray | None) -> list[list[Value]]:
        """Return the generalised forces of one unit of each control, a row for each force."""
        model = self.model
        if wrenches is None:
            wrenches = np.zeros((model.nv, model.nu))
            for index in range(model.nu):
                joint = int(model.actuator_trnid[index, 0])
                wrenches[joint, index] = model.actuator_gear[index, 0]
        rows = torch.as_tensor(wrenches * model.actuator_gainprm[:, 0])
        return [shared(row.unsqueeze(0)) if len(row) else [] for row in rows]

    def _expand(self, name: str) -> torch.Tensor:
        own = torch.as_tensor(getattr(self.model, name), dtype=torch.float32, device=self.device)
        return own.repeat(self.num_envs, *[1] * own.dim())

    def _set_constants(self) -> None:
        values = [self._nominal[name] for name in MODEL_FIELDS]
        for index, name in enumerate(MODEL_FIELDS):
            if name in self.params:
                values[index] = self.params[name]
        rows = max(len(value) for value in values)
        self._dynamics.set_constants(*(value.expand(rows, *value.shape[1:]) for value in values))


def _set_rows(
    values: torch.Tensor, rows: np.ndarray | torch.Tensor, new: torch.Tensor | None
) -> None:
    """Write some environments: by indices on a CPU, else by a mask, ``(num_envs, 1)``."""
    if isinstance(rows, torch.Tensor):
        values.copy_(torch.where(rows, 0.0 if new is None else new, values))
    else:
        values.numpy()[rows] = 0.0 if new is None else new.expand_as(values).numpy()[rows]


def _check_supported(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise ConfigurationError(
                f"{'An event or ' * (kind == 'model')}env.sim.{kind}_fields names {name!r}, but "
                f"the analytic backend has only {', '.join(known)}.{did_you_mean(name, known)} Use "
                "env.sim.backend=mujoco (or mujoco_warp on a GPU) for the rest."
            )
