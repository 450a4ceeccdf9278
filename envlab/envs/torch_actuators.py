"""Actuators computed in torch before each physics step: networks, tables, custom laws.

MuJoCo's own actuators (:mod:`envlab.envs.actuators`) need one call a control step; these are asked
in each physics step, and so cost more. Their joints get a plain motor in the model. A control is
then a target when actions write it, and the effort in a physics step and after it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from envlab.envs.actuators import (
    ActuatorCfg,
    ActuatorFunctionCfg,
    ActuatorNetLSTMCfg,
    ActuatorNetMLPCfg,
    DCMotorCfg,
    RemotizedPDActuatorCfg,
    delay_range,
    group_actuators,
    is_in_torch,
    joint_values,
)
from envlab.envs.model_files import load_network
from envlab.envs.random import EnvRandom
from envlab.errors import ConfigurationError
from envlab.sim.simulation import Simulation
from envlab.state import State

Law = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Efforts of targets, positions and velocities, each ``(num_envs, num_joints)``."""


class TorchActuator:
    """The actuators of a group of joints.

    Attributes:
        name: The group's.
        joint_names: Its joints.
        targets: The targets that the actions set in this step, ``(num_envs, num_joints)``.
        computed_effort: Efforts before limits, in N m or N.
        applied_effort: Efforts in the last physics step.
    """

    STATE = State(
        per_env=("_late", "_lag", "_is_fresh", "_errors", "_velocities"),
        per_env_dim_1=("_hidden", "_cell"),
    )
    _errors: torch.Tensor | None = None
    _velocities: torch.Tensor | None = None
    _hidden: torch.Tensor | None = None
    _cell: torch.Tensor | None = None

    def __init__(self, name: str, cfg: ActuatorCfg, sim: Simulation, random: EnvRandom) -> None:
        """Look up the joints, and load the model.

        Raises:
            ConfigurationError: If the model cannot be read, or does not fit the joints.
        """
        model, device, num_envs = sim.model, sim.device, sim.num_envs
        self.name, self._cfg, self._sim = name, cfg, sim
        ids = group_actuators(model, name, cfg)
        joints = [int(model.actuator_trnid[i, 0]) for i in ids]
        self.joint_names = [model.joint(joint).name for joint in joints]
        index = functools.partial(torch.tensor, dtype=torch.int64, device=device)
        self._ids = index(ids)
        self._qpos_ids = index([int(model.jnt_qposadr[joint]) for joint in joints])
        self._qvel_ids = index([int(model.jnt_dofadr[joint]) for joint in joints])
        self._path = f"env.scene.actuators.{name}"
        self._low, self._high = delay_range(cfg)
        self._lags = random.stream(f"actuators.{name}.lag")
        self.targets = torch.zeros(num_envs, len(ids), device=device)
        self.computed_effort = torch.zeros_like(self.targets)
        self.applied_effort = torch.zeros_like(self.targets)
        self._is_fresh = torch.ones(num_envs, dtype=torch.bool, device=device)
        self._late = torch.zeros(num_envs, self._high + 1, len(ids), device=device)
        self._lag = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._law, self._bound = self._make_law(), self._make_bound()

    def take_targets(self) -> None:
        """Take what the actions have written."""
        self.targets.copy_(self._sim.ctrl.index_select(1, self._ids))

    def show_targets(self) -> None:
        """Put the targets back where actions write them, in place of the efforts."""
        self._sim.ctrl.index_copy_(1, self._ids, self.targets)

    @torch.no_grad()
    def control(self) -> None:
        """Write the efforts of the next physics step."""
        positions = self._sim.data.qpos.index_select(1, self._qpos_ids)
        velocities = self._sim.data.qvel.index_select(1, self._qvel_ids)
        efforts = self._law(self._delayed(), positions, velocities)
        self.computed_effort.copy_(efforts)
        self.applied_effort.copy_(self._bound(efforts, positions, velocities))
        self._sim.ctrl.index_copy_(1, self._ids, self.applied_effort)
        self._is_fresh.zero_()

    def reset(self, mask: torch.Tensor) -> None:
        """Forget the episodes of ``mask``, and draw their delays."""
        self._is_fresh |= mask
        if self._low < self._high:
            drawn = self._lags.integers(self._low, self._high + 1)
            self._lag.copy_(torch.where(mask, drawn, self._lag))
        else:
            self._lag.fill_(self._low)
        for memory in (self._errors, self._velocities):
            if memory is not None:
                memory.masked_fill_(mask[:, None, None], 0.0)
        for memory in (self._hidden, self._cell):
            if memory is not None:
                memory.masked_fill_(mask[None, :, None, None], 0.0)

    def not_finite(self) -> list[str]:
        """Return the joints whose last efforts were not finite though their positions are."""
        fine = self._sim.data.qpos.index_select(1, self._qpos_ids).isfinite()
        bad = (fine & ~self.computed_effort.isfinite()).any(dim=0).tolist()
        return [name for name, is_bad in zip(self.joint_names, bad, strict=True) if is_bad]

    # ----------------------------------------------------------------------------------------------

    def _delayed(self) -> torch.Tensor:
        """Return the targets of some physics steps ago; an episode's first acts at once."""
        if not self._high:
            return self.targets
        newest = self.targets.unsqueeze(1)
        later = torch.cat((self._late[:, 1:], newest), dim=1)
        fresh = self._is_fresh.view(-1, 1, 1)
        self._late.copy_(torch.where(fresh, newest.expand_as(later), later))
        place = (self._high - self._lag).view(-1, 1, 1).expand(-1, 1, self._late.shape[2])
        return self._late.gather(1, place).squeeze(1)

    def _of_joints(self, name: str, default: float) -> torch.Tensor:
        """Return a setting of each joint, ``(num_joints,)``."""
        values = joint_values(f"{self._path}.{name}", getattr(self._cfg, name), self.joint_names)
        found = [values.get(joint, default) for joint in self.joint_names]
        return torch.tensor(found, device=self._ids.device)

    def _make_law(self) -> Law:
        cfg = self._cfg
        if isinstance(cfg, ActuatorNetMLPCfg):
            return self._mlp(cfg)
        if isinstance(cfg, ActuatorNetLSTMCfg):
            return self._lstm(cfg)
        if isinstance(cfg, ActuatorFunctionCfg):
            return self._function(cfg)
        stiffness, damping = self._of_joints("stiffness", 0.0), self._of_joints("damping", 0.0)
        if not stiffness.any() and not damping.any():  # then a target is an effort
            return lambda targets, _, __: targets
        # Events change the gains that the model has of each environment, which physics ignores.
        own = vars(self._sim.params).get("actuator_biasprm")

        def gains() -> tuple[torch.Tensor, torch.Tensor]:
            if own is None:
                return stiffness, damping
            prm = own.index_select(1, self._ids)
            return -prm[..., 1], -prm[..., 2]

        if not stiffness.any():  # then a target is a velocity
            return lambda targets, _, velocities: gains()[1] * (targets - velocities)

        def pd(targets: torch.Tensor, pos: torch.Tensor, vel: torch.Tensor) -> torch.Tensor:
            kp, kd = gains()
            return kp * (targets - pos) - kd * vel

        return pd

    def _make_bound(self) -> Law:
        """Return the law of limits: efforts of efforts, positions and velocities."""
        cfg, nominal = self._cfg, self._of_joints("effort_limit", math.inf)
        own = vars(self._sim.params).get("actuator_forcerange")

        def limits() -> torch.Tensor:
            if own is None:
                return nominal
            return torch.where(nominal.isinf(), nominal, own.index_select(1, self._ids)[..., 1])

        if isinstance(cfg, RemotizedPDActuatorCfg):
            return self._bounded_by_angle(cfg)
        if isinstance(cfg, DCMotorCfg | ActuatorNetMLPCfg | ActuatorNetLSTMCfg):
            stall, free = cfg.saturation_effort, cfg.velocity_limit
            farthest = free * (1.0 + nominal / stall)

            def line(efforts: torch.Tensor, _: Any, velocities: torch.Tensor) -> torch.Tensor:
                limit = limits()
                corner = farthest if own is None else free * (1.0 + limit / stall)
                part = torch.clamp(velocities, -corner, corner) / free
                most = torch.minimum(stall * (1.0 - part), limit)
                return torch.clamp(efforts, torch.maximum(stall * (-1.0 - part), -limit), most)

            return line

        def within(efforts: torch.Tensor, _: Any, __: Any) -> torch.Tensor:
            limit = limits()
            return torch.clamp(efforts, -limit, limit)

        return within

    def _bounded_by_angle(self, cfg: RemotizedPDActuatorCfg) -> Law:
        """Return limits that a table gives by the joint's angle, linear between its rows."""
        table = torch.tensor(cfg.joint_parameter_lookup, device=self._ids.device)
        if table.dim() != 2 or table.shape[1] != 3 or not (table[1:, 0] > table[:-1, 0]).all():
            raise ConfigurationError(
                f"{self._path}.joint_parameter_lookup has shape {tuple(table.shape)}, but must be "
                "rows of [angle, transmission ratio, largest effort] with ascending angles."
            )
        angles, most = table[:, 0].contiguous(), table[:, 2]

        def bounded(efforts: torch.Tensor, positions: torch.Tensor, _: Any) -> torch.Tensor:
            above = torch.searchsorted(angles, positions.contiguous()).clamp(1, len(angles) - 1)
            low, high = angles[above - 1], angles[above]
            share = ((positions - low) / (high - low)).clamp(0.0, 1.0)
            limit = most[above - 1] + share * (most[above] - most[above - 1])
            return torch.clamp(efforts, -limit, limit)

        return bounded

    def _function(self, cfg: ActuatorFunctionCfg) -> Law:
        has_history = cfg.history_length > 0
        if has_history:
            self._keep_history(cfg.history_length)

        def law(targets: torch.Tensor, pos: torch.Tensor, vel: torch.Tensor) -> torch.Tensor:
            past = self._move_history(targets - pos, vel) if has_history else ()
            efforts: torch.Tensor = cfg.func(targets, pos, vel, *past, **cfg.params)
            return efforts

        past = ", errors and velocities of before" if has_history else ""
        self._try(law, f"targets, positions, velocities{past} and its params")
        return law

    def _keep_history(self, length: int) -> None:
        num_envs, num_joints = self.targets.shape
        self._errors = self.targets.new_zeros(num_envs, length, num_joints)
        self._velocities = torch.zeros_like(self._errors)

    def _move_history(
        self, errors: torch.Tensor, velocities: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the histories with the latest values first, ``(num_envs, length, num_joints)``."""
        assert self._errors is not None
        assert self._velocities is not None
        for kept, new in ((self._errors, errors), (self._velocities, velocities)):
            kept.copy_(torch.cat((new.unsqueeze(1), kept[:, :-1]), dim=1))
        return self._errors, self._velocities

    def _mlp(self, cfg: ActuatorNetMLPCfg) -> Law:
        """Return the law of a network over past errors and velocities (Hwangbo et al. 2019)."""
        network = load_network(cfg.network_file, f"{self._path}.network_file", self._ids.device)
        if not cfg.input_idx:
            raise ConfigurationError(
                f"{self._path}.input_idx is empty, but must have ages of inputs. Use [0, 2, 4]."
            )
        places = torch.tensor(list(cfg.input_idx), device=self._ids.device)
        self._keep_history(max(cfg.input_idx) + 1)
        num_envs, num_joints = self.targets.shape

        def law(targets: torch.Tensor, pos: torch.Tensor, vel: torch.Tensor) -> torch.Tensor:
            errors, velocities = self._move_history(targets - pos, vel)
            parts = [
                (values.index_select(1, places) * factor).transpose(1, 2).flatten(0, 1)
                for values, factor in ((errors, cfg.pos_scale), (velocities, cfg.vel_scale))
            ]
            inputs = torch.cat(parts if cfg.input_order == "pos_vel" else parts[::-1], dim=1)
            efforts: torch.Tensor = network(inputs).view(num_envs, num_joints) * cfg.torque_scale
            return efforts

        self._try(law, f"{2 * len(places)} inputs for each joint")
        return law

    def _lstm(self, cfg: ActuatorNetLSTMCfg) -> Law:
        """Return the law of a recurrent network over errors and velocities (Rudin et al. 2022)."""
        network = load_network(cfg.network_file, f"{self._path}.network_file", self._ids.device)
        num_envs, num_joints = self.targets.shape
        try:
            weights = network.lstm.state_dict()
            layers, size = len(weights) // 4, weights["weight_hh_l0"].shape[1]
        except (AttributeError, KeyError, RuntimeError) as error:
            raise ConfigurationError(
                f"{self._path}.network_file {cfg.network_file} has no part 'lstm' with weights. "
                "Isaac Lab's networks do: script a module with self.lstm = nn.LSTM(...)."
            ) from error
        self._hidden = self.targets.new_zeros(layers, num_envs, num_joints, size)
        self._cell = torch.zeros_like(self._hidden)

        def law(targets: torch.Tensor, pos: torch.Tensor, vel: torch.Tensor) -> torch.Tensor:
            hidden, cell = self._hidden, self._cell
            assert hidden is not None
            assert cell is not None
            inputs = torch.stack((targets - pos, vel), dim=-1).view(-1, 1, 2)
            efforts, (new_hidden, new_cell) = network(
                inputs, (hidden.flatten(1, 2), cell.flatten(1, 2))
            )
            hidden.copy_(new_hidden.view_as(hidden))
            cell.copy_(new_cell.view_as(cell))
            found: torch.Tensor = efforts.view(num_envs, num_joints)
            return found

        self._try(law, "inputs (joints, 1, 2) and its two memories")
        return law

    def _try(self, law: Law, wanted: str) -> None:
        """Ask a network or a function once, with zeros."""
        what = "function" if isinstance(self._cfg, ActuatorFunctionCfg) else "network"
        zero = torch.zeros_like(self.targets)
        try:
            with torch.no_grad():
                efforts = law(zero, zero, zero)
        except (RuntimeError, TypeError) as error:
            raise ConfigurationError(
                f"{self._path}: the {what} does not take {wanted} "
                f"({str(error).strip().splitlines()[-1]:.120}). Give one that was made for these "
                "settings."
            ) from error
        if not isinstance(efforts, torch.Tensor) or efforts.shape != zero.shape:
            found = getattr(efforts, "shape", type(efforts).__name__)
            raise ConfigurationError(
                f"{self._path}: the {what} returned {found}, but must return efforts, "
                f"{zero.shape}: environments, joints."
            )
        if not bool(efforts.isfinite().all()):
            raise ConfigurationError(
                f"{self._path}: the {what}'s effort at rest is not finite. Give a network whose "
                "effort is."
            )
        self.reset(torch.ones_like(self._is_fresh))


def torch_actuators(
    actuators: Mapping[str, ActuatorCfg] | None, sim: Simulation, random: EnvRandom
) -> list[TorchActuator] | None:
    """Return the actuators that torch computes; None: there are none.

    Raises:
        ConfigurationError: If the backend cannot ask them in each physics step, or as
            :class:`TorchActuator`.
    """
    found = {name: cfg for name, cfg in (actuators or {}).items() if is_in_torch(cfg)}
    if not found:
        return None
    if not sim.has_substeps:
        raise ConfigurationError(
            f"env.scene.actuators.{next(iter(found))} is evaluated in each physics step, and "
            "env.sim.backend=analytic has none. Use mujoco, or mujoco_warp."
        )
    return [TorchActuator(name, cfg, sim, random) for name, cfg in found.items()]
