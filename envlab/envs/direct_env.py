"""Environments written as one class: subclass :class:`DirectEnv` and override its methods.

:class:`DirectEvents` is what they have in common with those of several agents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import mujoco
import torch

from envlab.envs.cfg import EnvCfg
from envlab.envs.discrete import DiscreteCfg
from envlab.envs.episodes import Log
from envlab.envs.managers.event import EventManager, edit_spec, with_event_fields
from envlab.envs.managers.function_term import ManagerTermBase
from envlab.envs.managers.sensor import (
    SensorManager,
    SensorTermCfg,
    add_sensors,
    with_sensor_fields,
)
from envlab.envs.managers.term import terms_of
from envlab.envs.masks import assign
from envlab.envs.noise import NoiseCfg, NoiseModelWithAdditiveBiasCfg
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError
from envlab.sim.simulation import SimulationCfg
from envlab.state import State


class DirectEvents(VectorEnv):
    """An environment whose configuration may have ``events`` and sensors, and no other terms.

    A sensor is a field of the configuration, such as ``tiled_camera: CameraCfg``, and is
    ``self.sensor("tiled_camera")``.
    """

    STATE = State(parts=("event_manager", "sensor_manager", "memories"))
    cfg: Any
    sensor_manager: SensorManager | None = None
    """None without sensors."""
    event_manager: EventManager | None = None
    memories: dict[str, ManagerTermBase] | None = None
    """Events that are classes, by name; None without any."""
    encoder_bias: torch.Tensor | None = None
    control_each_substep: ClassVar[bool] = False
    """Whether ``_apply_action()`` is called before each physics step, as in Isaac Lab, for controls
    that follow from the state as it moves; the simulation then gets ``decimation`` calls a step."""

    def _apply_action(self) -> None:
        """Write ``self.sim.ctrl``."""
        raise NotImplementedError

    def _substep_controls(self) -> Mapping[str, Callable[[], None]]:
        return {"_apply_action()": self._apply_action} if self.control_each_substep else {}

    def _simulation_cfg(self, cfg: EnvCfg) -> SimulationCfg:
        sim = with_sensor_fields(cfg.sim, cfg)
        return with_event_fields(sim, getattr(cfg, "events", None))

    def edit_spec(self, spec: mujoco.MjSpec) -> None:
        edit_spec(self.cfg.events, self, spec)
        add_sensors(self.cfg, spec)

    def _prepare(self) -> None:
        super()._prepare()
        if terms_of(self.cfg, SensorTermCfg):
            self.sensor_manager = SensorManager(self.cfg, self)
        if self.cfg.events is not None:
            self.memories = {}
            self.event_manager = EventManager(
                self.cfg.events, self, self.sensor_manager or SensorManager(None, self)
            )
            self.event_manager.start()
            self.memories = self.memories or None

    def _restart(self, seed: int) -> None:
        super()._restart(seed)
        if self.event_manager is not None:
            self.event_manager.restart()

    def sensor(self, name: str) -> Any:
        """Return the sensor of a field of the configuration, such as a camera."""
        assert self.sensor_manager is not None, "the configuration has no sensors"
        return self.sensor_manager.get_term(name)

    def _measure(self) -> None:
        super()._measure()
        if self.sensor_manager is not None:
            self.sensor_manager.update(self.step_dt)

    def _begin_reset(self, mask: torch.Tensor) -> None:
        if self.event_manager is not None:
            self.event_manager.apply("reset", mask)
            self.event_manager.reset(mask)
        if self.sensor_manager is not None:
            self.sensor_manager.reset(mask)
        for memory in (self.memories or {}).values():
            memory.reset(mask)

    def _after_resets(self) -> None:
        if self.event_manager is not None:
            self.event_manager.end_step(self.step_dt)


@dataclass(kw_only=True)
class DirectEnvCfg(EnvCfg):
    """Configuration of a :class:`DirectEnv`; a task's own settings are further fields."""

    action_space: int | DiscreteCfg = 1
    """Size of an action; or, for actions that are choices, what they choose among."""
    observation_space: int | list[int] | None = 1
    """Size of the ``policy`` observation, or its shape, ``[height, width, channels]`` for an image;
    checked against what the environment returns. Null: the shape of what it returns."""
    state_space: int | list[int] = 0
    """The same for the ``critic`` observation, if :meth:`DirectEnv._get_observations` returns
    one."""
    action_noise_model: NoiseCfg | None = None
    """Noise on actions, before :meth:`DirectEnv._pre_physics_step` sees them; not on choices."""
    observation_noise_model: NoiseCfg | None = None
    """Noise on the ``policy`` observation (not on ``critic``)."""
    events: Any = None
    """Event terms, as of manager-based tasks; null: none."""


class DirectEnv(DirectEvents):
    """A task whose rewards, observations and resets are methods.

    Override ``_pre_physics_step(actions)``, ``_apply_action()``, ``_get_observations()``,
    ``_get_rewards()``, ``_get_dones()`` and ``_reset_envs(mask)``; ``_setup()`` runs once. The
    names are Isaac Lab's, except ``_reset_envs``, which takes a mask. Unlike in Isaac Lab, physics
    runs all substeps in one call, so ``_apply_action()`` is called once per step, unless the class
    sets ``control_each_substep``.
    """

    STATE = State(per_env=("_biases",))
    cfg: DirectEnvCfg
    _biases: Mapping[str, torch.Tensor] = {}
    """Biases drawn by noise models, by name; a subclass that declares its spaces itself has
    none."""

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        """Keep the parts of ``actions`` that :meth:`_apply_action` needs.

        Args:
            actions: Float32 ``(num_envs, num_actions)``; choices are int64, with a column for each.
        """
        raise NotImplementedError

    def _num_actions(self) -> int:
        space = self.cfg.action_space
        return len(space.sizes) if isinstance(space, DiscreteCfg) else space

    def _apply_actions(self, actions: torch.Tensor) -> None:
        noise = self.cfg.action_noise_model
        if noise is not None:
            actions = self._with_noise("action_noise", noise, actions)
        self._pre_physics_step(actions)
        if not self.control_each_substep:
            self._apply_action()

    def _sample_observations(self) -> dict[str, torch.Tensor]:
        # Copies, because a task may return views of the simulation's memory.
        observations = {name: obs.clone() for name, obs in self._get_observations().items()}
        noise = self.cfg.observation_noise_model
        if noise is not None:
            policy = observations["policy"]
            observations["policy"] = self._with_noise("observation_noise", noise, policy)
        return observations

    def _with_noise(self, name: str, noise: NoiseCfg, values: torch.Tensor) -> torch.Tensor:
        noisy = noise.apply(values, self.random.stream(name))
        return noisy + self._biases[name] if name in self._biases else noisy

    def _make_biases(self, policy: torch.Tensor) -> None:
        """Allocate the biases that noise models draw; ``policy`` is an observation."""
        models = {
            "action_noise": (self.cfg.action_noise_model, self.actions),
            "observation_noise": (self.cfg.observation_noise_model, policy),
        }
        self._biases = {
            name: torch.zeros_like(values)
            for name, (model, values) in models.items()
            if isinstance(model, NoiseModelWithAdditiveBiasCfg)
        }

    def _reset_masked(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        for name, bias in self._biases.items():
            model = getattr(self.cfg, f"{name}_model")
            stream = self.random.stream(f"{name}.bias")
            assign(bias, mask, model.bias_noise_cfg.apply(torch.zeros_like(bias), stream))
        return super()._reset_masked(mask, count)

    def _choices(self) -> DiscreteCfg | None:
        space = self.cfg.action_space
        return space if isinstance(space, DiscreteCfg) else None

    def _make_spaces(self) -> None:
        _check_action_space(self.cfg)
        super()._make_spaces()
        declared = {"policy": self.cfg.observation_space, "critic": self.cfg.state_space}
        observations = self._get_observations()
        self._make_biases(observations["policy"])
        if self.cfg.state_space and "critic" not in observations:
            raise ConfigurationError(
                f"state_space is {self.cfg.state_space}, but the task returns no 'critic' "
                "observation. Return one, or set state_space to 0."
            )
        for name, values in observations.items():
            size = declared.get(name, 0)
            shape = (size,) if isinstance(size, int) else size
            if shape is not None and tuple(values.shape[1:]) != tuple(shape):
                raise ConfigurationError(
                    f"The task observes {name!r} of shape {tuple(values.shape[1:])}, but its "
                    f"configuration declares {size}. Set observation_space (or "
                    "state_space) to match."
                )


def _check_action_space(cfg: DirectEnvCfg) -> None:
    if not isinstance(cfg.action_space, int | DiscreteCfg):
        raise ConfigurationError(
            f"action_space is {cfg.action_space!r}, but must be a size or a DiscreteCfg. For Isaac "
            "Lab's {3} write DiscreteCfg(num_options=3), for its [{3}, {2}] "
            "DiscreteCfg(num_options=[3, 2])."
        )
    if isinstance(cfg.action_space, DiscreteCfg) and cfg.action_noise_model is not None:
        raise ConfigurationError(
            "action_noise_model is set, but actions that are choices take no noise. Set it to null."
        )
