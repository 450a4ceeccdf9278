"""Environments composed of terms: :class:`ManagerEnv` and its configuration."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import torch

from envlab.envs.cfg import EnvCfg
from envlab.envs.entities import SceneEntityCfg
from envlab.envs.episodes import Log
from envlab.envs.managers import (
    ActionManager,
    CommandManager,
    CurriculumManager,
    EventManager,
    ManagerTermBase,
    MetricsManager,
    MetricsTermCfg,
    ObservationManager,
    RewardManager,
    SensorManager,
    SuccessManager,
    SuccessTermCfg,
    TerminationManager,
)
from envlab.envs.managers.action import add_for_actions, with_action_fields
from envlab.envs.managers.event import edit_spec, with_event_fields
from envlab.envs.managers.function_term import FunctionTermCfg
from envlab.envs.managers.recorder import RecorderManager, RecorderManagerBaseCfg
from envlab.envs.managers.sensor import add_sensors, with_sensor_fields
from envlab.envs.managers.term import TermCfg, terms_of
from envlab.envs.masks import masked_means
from envlab.envs.modifiers import Mode
from envlab.envs.vector_env import VectorEnv
from envlab.sim.host import on_host
from envlab.sim.simulation import SimulationCfg
from envlab.state import State


@dataclass(kw_only=True)
class ManagerEnvCfg(EnvCfg):
    """Configuration of a :class:`ManagerEnv`: each field is a dataclass whose fields are terms."""

    observations: Any
    """Groups of observation terms; ``policy`` is required, ``critic`` optional."""
    actions: Any
    """Action terms."""
    rewards: Any = None
    """Reward terms."""
    terminations: Any = None
    """Termination terms."""
    events: Any = None
    """Event terms."""
    commands: Any = None
    """Command terms."""
    curriculum: Any = None
    """Curriculum terms."""
    sensors: Any = None
    """Sensors with a memory, which terms reach by a ``SceneEntityCfg`` of the sensor's name."""
    metrics: Any = None
    """Metric terms, which are logged and have no weight."""
    success: SuccessTermCfg | None = None
    """When an episode counts as successful; null: not measured."""
    recorders: RecorderManagerBaseCfg | None = None
    """What is recorded of each episode; null: nothing. A run that is played, validated or resumed
    records nothing."""

    def __todays_values__(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return an earlier file's values with scans of the ground as sensors, not in terms."""
        values = copy.deepcopy(super().__todays_values__(values))
        for *path, params in _params_of(values):
            scan: Any = params.get("sensor_cfg")
            today: Any = self
            if not isinstance(scan, dict) or "pattern_cfg" not in scan:
                continue
            for name in path:
                today = getattr(today, name, None)
            known = getattr(today, "params", {}).get("sensor_cfg")
            if not isinstance(known, SceneEntityCfg):
                continue
            if path[0] == "observations":  # elsewhere it is the term's own
                bodies = (params.pop("asset_cfg", None) or {}).get("body_names")
                scan = {**scan, "body_name": bodies or ""}
            values["sensors"] = {**(values.get("sensors") or {}), known.name: scan}
            params["sensor_cfg"] = {**dict.fromkeys(vars(known)), "name": known.name}
        return values


def _params_of(values: Any, *path: str) -> Iterator[Any]:
    """Yield the path of each term in a file's values and its ``params``, as one sequence."""
    if isinstance(values, dict):
        if isinstance(values.get("params"), dict):
            yield *path, values["params"]
        for name, inner in values.items():
            yield from _params_of(inner, *path, name)


class ManagerEnv(VectorEnv):
    """An environment whose parts are the terms of its configuration, in Isaac Lab's order.

    A step is: actions, physics, sensors, success, terminations, rewards (weight times step
    duration), metrics, resets (curriculum, events, managers), commands, step events, interval
    events, observations.
    """

    STATE = State(
        per_env=("encoder_bias",),
        parts=(
            *("action_manager", "reward_manager", "event_manager"),
            *("command_manager", "sensor_manager", "success_manager"),
            *("observation_manager", "metrics_manager", "memories"),
        ),
    )
    cfg: ManagerEnvCfg
    metrics_manager: MetricsManager | None = None
    """Metrics; None without any."""
    recorder_manager: RecorderManager | None = None
    """Recorders; None without any. It may be set before the first reset."""
    memories: dict[str, ManagerTermBase]
    """Terms that are classes, by kind and name, such as ``rewards.feet``."""
    encoder_bias: torch.Tensor | None = None
    """Errors of the joints' encoders, ``(num_envs, nq)``, if an event adds them."""

    def _simulation_cfg(self, cfg: EnvCfg) -> SimulationCfg:
        sim = with_sensor_fields(cfg.sim, getattr(cfg, "sensors", None))
        sim = with_action_fields(sim, getattr(cfg, "actions", None))
        return with_event_fields(sim, getattr(cfg, "events", None))

    def edit_spec(self, spec: mujoco.MjSpec) -> None:
        edit_spec(self.cfg.events, self, spec)
        add_sensors(self.cfg.sensors, spec)
        add_for_actions(self.cfg.actions, spec)

    def _setup(self) -> None:
        self.memories: dict[str, ManagerTermBase] = {}
        sensors = self.sensor_manager = SensorManager(self.cfg.sensors, self)
        self.event_manager = EventManager(self.cfg.events, self, sensors)
        self.event_manager.start()
        self.command_manager = CommandManager(self.cfg.commands, self)
        self.action_manager = ActionManager(self.cfg.actions, self)
        self.observation_manager = ObservationManager(self.cfg.observations, self, sensors)
        self.termination_manager = TerminationManager(self.cfg.terminations, self, sensors)
        self.success_manager = SuccessManager(self.cfg.success, self, sensors)
        self.success = self.success_manager.values
        self.reward_manager = RewardManager(self.cfg.rewards, self, sensors)
        self.curriculum_manager = CurriculumManager(self.cfg.curriculum, self, sensors)
        if terms_of(self.cfg.metrics, MetricsTermCfg):
            self.metrics_manager = MetricsManager(self.cfg.metrics, self, sensors)
        if self.cfg.recorders is not None:
            self.recorder_manager = RecorderManager(self.cfg.recorders, self)
        self._log_scales: torch.Tensor | None = None
        self._log_table: torch.Tensor | None = None
        self._dt = self.step_dt

    def at_next_step(self, change: Callable[[], None]) -> None:
        """Call a curriculum's change of numbers before the next step, recorded or not."""
        if not self.is_rehearsing:
            self._changes += (change,)

    def before_restore(self) -> None:
        super().before_restore()
        self._changes = ()

    def _restart(self, seed: int) -> None:
        super()._restart(seed)
        self.event_manager.restart()
        self.command_manager.restart()

    def _num_actions(self) -> int:
        return self.action_manager.total_action_dim

    def action_names(self) -> list[str]:
        return self.action_manager.names()

    def _substep_controls(self) -> Mapping[str, Callable[[], None]]:
        return self.action_manager.substep_controls()

    def _apply_actions(self, actions: torch.Tensor) -> None:
        self.action_manager.process_action(actions)
        if self.recorder_manager is not None:
            self.recorder_manager.record_pre_step()

    def _measure(self) -> None:
        self.sensor_manager.update(self._dt)
        if self.success is not None:
            self.success_manager.compute()

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.termination_manager.compute()

    def _get_rewards(self) -> torch.Tensor:
        reward = self.reward_manager.compute()
        if self.metrics_manager is not None:
            self.metrics_manager.compute()
        if self.recorder_manager is not None:
            self.recorder_manager.record_post_step()
        return reward

    def _get_observations(self) -> dict[str, torch.Tensor]:
        return self.observation_manager.compute(corrupt=False)

    def _sample_observations(self) -> dict[str, torch.Tensor]:
        mode: Mode = "reset" if self.is_resetting else "step"
        return self.observation_manager.compute(corrupt=True, mode=mode)

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        log = self._episode_log(mask, count)
        self.event_manager.apply("reset", mask)
        self.sensor_manager.reset(mask)
        self.action_manager.reset(mask)
        self.reward_manager.reset(mask)
        self.success_manager.reset(mask)
        if self.metrics_manager is not None:
            self.metrics_manager.reset(mask)
        self.command_manager.reset(mask)
        self.event_manager.reset(mask)
        self.observation_manager.reset(mask)
        for memory in self.memories.values():
            memory.reset(mask)
        return log | self.curriculum_manager.log()

    def _episode_log(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        """Return means over the episodes of ``mask``; of rewards, per second of the time limit."""
        rewards = self.reward_manager.episode_values()
        others = (
            self.termination_manager.episode_values()
            | self.command_manager.episode_values()
            | self.success_manager.episode_values()
        )
        if self.metrics_manager is not None:
            others |= self.metrics_manager.episode_values()
        values = rewards | others
        if not values:
            return {}
        if self._log_scales is None:
            seconds = [self.cfg.episode_length_s] * len(rewards)
            self._log_scales = torch.tensor([*seconds, *[1.0] * len(others)], device=self.device)
        rows: Any = list(values.values())
        if not on_host(self.device):
            rows = self._joined(rows)
        means = masked_means(rows, mask, count, self._log_scales)
        return dict(zip(values, means, strict=True))

    def _joined(self, rows: list[torch.Tensor]) -> torch.Tensor:
        """Return rows of several types as one float32 matrix, by one kernel for each type.

        On a GPU, torch.stack launches one for each row if their types differ.
        """
        if self._log_table is None:
            self._log_table = torch.zeros(len(rows), self.num_envs, device=self.device)
        for kind in dict.fromkeys(row.dtype for row in rows):
            of_kind = [index for index, row in enumerate(rows) if row.dtype == kind]
            torch._foreach_copy_(
                [self._log_table[index] for index in of_kind],
                [rows[index].contiguous() for index in of_kind],
            )
        return self._log_table

    def _before_resets(self, mask: torch.Tensor) -> None:
        self.command_manager.measure(mask)
        if self.curriculum_manager.active_terms:
            self.curriculum_manager.compute(mask)
        if self.recorder_manager is not None:
            self.recorder_manager.record_pre_reset(mask)

    def _reset_masked(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        log = super()._reset_masked(mask, count)
        if self.recorder_manager is not None:
            self.recorder_manager.record_post_reset(mask)
        return log

    def close(self, **kwargs: Any) -> None:
        """Finish the file of recorded episodes, and free the simulation."""
        if self.recorder_manager is not None:
            self.recorder_manager.close()
        super().close(**kwargs)

    def _after_resets(self) -> None:
        self.command_manager.compute(self._dt)
        self.event_manager.end_step(self._dt)

    def _name_failing_terms(self) -> str:
        fine = ~self.sim.bad()  # physics that is not finite makes all terms so
        found = {
            f"{kind} term {name!r}": int((bad & fine).sum())
            for kind, manager in (
                ("reward", self.reward_manager),
                ("observation", self.observation_manager),
            )
            for name, bad in manager.not_finite().items()
        }
        texts = [
            f"{name} is not finite in {count} of {self.num_envs} environments"
            for name, count in found.items()
            if count
        ]
        terms = f"The {', and the '.join(texts)}." if texts else ""
        return super()._name_failing_terms() or terms

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        self.command_manager.add_markers(scene)


def active_terms(env: ManagerEnv) -> str:
    """Return a table for each manager: terms in their order, with sizes, weights and modes."""
    cfg, observed = env.cfg, env.observation_manager
    tables = []
    for group in observed.active_terms:
        seen = env.obs_buf[group]
        what = "a dictionary" if isinstance(seen, dict) else tuple(seen.shape[1:])
        title = f"Observations of the group {group!r}, {what}"
        tables.append(_table(title, "Shape", observed.shapes(group)))
    acts, commands = env.action_manager, env.command_manager
    sizes = {name: (acts.get_term(name).dim,) for name in acts.active_terms}
    tables.append(_table(f"Actions, ({acts.total_action_dim},)", "Shape", sizes))
    kinds = {name: type(commands.get_term(name)).__name__ for name in commands.active_terms}
    tables.append(_table("Commands", "Type", kinds))
    for title, part, head, attribute in (
        ("Rewards", cfg.rewards, "Weight", "weight"),
        ("Terminations", cfg.terminations, "Time out", "time_out"),
        ("Events", cfg.events, "Mode", "mode"),
    ):
        terms = terms_of(part, TermCfg)
        facts = {name: getattr(term, attribute) for name, term in terms.items()}
        tables.append(_table(title, head, facts))
    for title, part in (("Curricula", cfg.curriculum), ("Metrics", cfg.metrics)):
        calls = terms_of(part, FunctionTermCfg)
        functions = {name: _name_of(term.func) for name, term in calls.items()}
        tables.append(_table(title, "Function", functions))
    return "\n\n".join(filter(None, tables))


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _table(title: str, head: str, facts: dict[str, Any]) -> str:
    from tabulate import tabulate  # takes 10 ms, which only a training needs

    rows = [(index, name, fact) for index, (name, fact) in enumerate(facts.items())]
    body = tabulate(rows, ("", "Term", head), disable_numparse=True, colalign=("right",))
    return f"{title}\n{body}" if rows else ""
