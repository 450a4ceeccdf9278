"""Isaac Lab's Go2 and mjlab's G1 on rough ground, read from their own files and built here.

Terms keep their names, functions, parameters and weights. Names that differ here are in the two
functions of parameters and in :data:`OF_G1`; all others have the peer's name in
:mod:`envlab.envs.mdp`. Observations and rewards then equal those of the registered task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import ManagerEnvCfg, SceneEntityCfg, UniformNoiseCfg, mdp
from envlab.envs.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    MetricsTermCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from envlab.registry import discover, get_task, load_env_cfg
from envlab_assets.robots.g1_29 import ACTION_SCALE, SOLES
from tests.envs.sliders import group, terms
from tests.peers.words import Word, fields_of, run

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
NUM_ENVS, NUM_STEPS = 8, 12
Params = dict[str, Any]
Rewrite = Callable[[str, Params], Params]
TOUCHES, FEET = SceneEntityCfg("contact_forces"), SceneEntityCfg("feet")
COMMAND = ("resampling_time_range", "rel_standing_envs", "rel_heading_envs", "rel_forward_envs")
COMMAND += ("heading_command", "heading_control_stiffness")
OF_G1 = {
    "out_of_terrain_bounds": "terrain_out_of_bounds",
    "feet_air_time": "feet_air_time_in_range",
}
"""mjlab's functions with another name here: Isaac Lab has another of that name, or another name."""


def sensors(*names: str) -> SceneEntityCfg:
    return SceneEntityCfg("robot", sensor_names=list(names))


def g1_params(func: str, params: Params) -> Params:
    """Return parameters of mjlab here, where sensors are named in other ways."""
    params = dict(params)
    sensor = str(params.pop("sensor_name", "")).removeprefix("robot/")
    if func.startswith(("feet_", "foot_height")) and func != "feet_air_time":
        params.pop("height_sensor_name", None)
        params.pop("asset_cfg", None)
        params["feet_cfg"] = FEET
    if func == "builtin_sensor":
        params["sensor_name"] = sensor
    elif func in ("angular_momentum_penalty", "self_collision_cost"):
        params["asset_cfg"] = sensors(sensor)
    elif sensor == "terrain_scan":
        params |= {"sensor_cfg": SceneEntityCfg(sensor), "offset": 0.0}  # Isaac Lab's offset is 0.5
    elif sensor == "feet_ground_contact":
        params["sensor_cfg"] = TOUCHES
    elif func == "geom_friction":
        params["asset_cfg"] = SceneEntityCfg("robot", geom_names=SOLES)  # of two capsules, not 7
    elif func == "out_of_terrain_bounds":
        params["distance_buffer"] = 0.3
    return params


@dataclasses.dataclass
class Translation:
    """A peer's words in ours."""

    renamed: dict[str, str]
    rewrite: Rewrite
    seen: set[str] = dataclasses.field(default_factory=set)
    """The peer's functions so far."""

    def func(self, word: Any) -> Any:
        name = word.__name__
        self.seen.add(name)
        name = self.renamed.get(name, name)
        return getattr(mdp, name, None) or getattr(mdp.dr, name)

    def params(self, term: Any) -> Params:
        given = {name: here(value) for name, value in vars(term).get("params", {}).items()}
        return self.rewrite(term.func.__name__, given)

    def of(self, kind: type, term: Any, **more: Any) -> Any:
        kept = {name: vars(term)[name] for name in more.pop("fields", ()) if name in vars(term)}
        return kind(func=self.func(term.func), params=self.params(term), **kept, **more)

    def observations(self, container: Any, *, enable_corruption: bool) -> Any:
        found = {}
        for name, term in fields_of(container):
            bounds, noise = None, vars(term).get("noise")
            if noise is not None:
                bounds = UniformNoiseCfg(n_min=noise.n_min, n_max=noise.n_max)
            fields = ("clip", "scale")
            found[name] = self.of(ObservationTermCfg, term, noise=bounds, fields=fields)
        return group(enable_corruption=enable_corruption, **found)

    def all(self, kind: type, container: Any, *fields: str) -> Any:
        named = fields_of(container)
        return terms(**{name: self.of(kind, term, fields=fields) for name, term in named})

    def command(self, word: Any) -> mdp.UniformVelocityCommandCfg:
        kept = {name: vars(word)[name] for name in COMMAND if name in vars(word)}
        ranges = {name: value for name, value in vars(word.ranges).items() if name != "args"}
        return mdp.UniformVelocityCommandCfg(**kept, ranges=mdp.VelocityRangesCfg(**ranges))

    def rest(self, peer: Any) -> dict[str, Any]:
        """Return all but observations, actions and commands."""
        events = ("mode", "interval_range_s")
        return {
            "rewards": self.all(RewardTermCfg, peer.rewards, "weight"),
            "terminations": self.all(TerminationTermCfg, peer.terminations, "time_out"),
            "events": self.all(EventTermCfg, peer.events, *events),
            "curriculum": self.all(CurriculumTermCfg, peer.curriculum),
            "metrics": self.all(MetricsTermCfg, peer.metrics),
            "decimation": peer.decimation,
            "episode_length_s": peer.episode_length_s,
        }


def here(value: Any) -> Any:
    """Return a parameter's value; the peers' parts of a robot are SceneEntityCfg too."""
    if not isinstance(value, Word):
        return value
    assert type(value).__name__ == "SceneEntityCfg"
    names = {name: one for name, one in vars(value).items() if name != "args"}
    return SceneEntityCfg(
        *value.args, **{k: list(v) if isinstance(v, tuple) else v for k, v in names.items()}
    )


def stepped(cfg: ManagerEnvCfg, task_id: str) -> list[torch.Tensor]:
    """Return observations and rewards of steps with random actions."""
    env = get_task(task_id).make(
        cfg, num_envs=NUM_ENVS, context=DistributedContext.single("cpu"), seed=0
    )
    rows = [env.reset()[0]["policy"].clone()]
    generator = torch.Generator().manual_seed(1)
    for _ in range(NUM_STEPS):
        actions = torch.randn(NUM_ENVS, env.actions.shape[1], generator=generator)
        obs, rewards, *_ = env.step(actions)
        rows += [obs["policy"].clone(), rewards.clone()]
    env.close()
    assert all(bool(row.isfinite().all()) for row in rows)
    return rows


def assert_same(built: ManagerEnvCfg, task_id: str) -> None:
    """Check that the peer's configuration is the registered task, by what it observes and earns."""
    ours = load_env_cfg(get_task(task_id))
    for now, then in zip(stepped(built, task_id), stepped(ours, task_id), strict=True):
        torch.testing.assert_close(now, then, rtol=1e-4, atol=1e-4)


def test_isaac_labs_go2_on_rough_ground_is_said_in_its_own_words(isaac: Path):
    discover()
    folder = isaac.parents[1] / "isaaclab_tasks/isaaclab_tasks/manager_based/locomotion/velocity"
    words: dict[str, Any] = {}
    base = run(folder / "velocity_env_cfg.py", words)["LocomotionVelocityRoughEnvCfg"]
    known = {"LocomotionVelocityRoughEnvCfg": base}
    names = run(folder / "config/go2/rough_env_cfg.py", words, **known)
    peer, translation = (
        names["UnitreeGo2RoughEnvCfg"](),
        Translation({}, lambda func, params: params),
    )
    task_id = "Isaac-Velocity-Rough-Unitree-Go2-v0"
    action = peer.actions.joint_pos
    built = dataclasses.replace(
        load_env_cfg(get_task(task_id)),
        **translation.rest(peer),
        observations=terms(
            policy=translation.observations(
                peer.observations.policy,
                enable_corruption=peer.observations.policy.enable_corruption,
            )
        ),
        commands=terms(base_velocity=translation.command(peer.commands.base_velocity)),
        actions=terms(
            joint_pos=mdp.JointPositionActionCfg(
                asset_name=action.asset_name,
                joint_names=action.joint_names,
                scale=action.scale,
                use_default_offset=action.use_default_offset,
            )
        ),
    )
    assert len(translation.seen) > 20
    assert_same(built, task_id)


def test_mjlabs_g1_on_rough_ground_is_said_in_its_own_words(peers: Path):
    discover()
    folder, words = peers / "mjlab/tasks/velocity", {}
    base = run(folder / "velocity_env_cfg.py", words, replace=lambda one: one)
    known = {"make_velocity_env_cfg": base["make_velocity_env_cfg"]}
    names = run(folder / "config/g1/env_cfgs.py", words, **known)
    peer, translation = names["unitree_g1_rough_env_cfg"](), Translation(OF_G1, g1_params)
    task_id = "Mjlab-Velocity-Rough-Unitree-G1"
    groups = {
        name: translation.observations(one.terms, enable_corruption=one.enable_corruption)
        for name, one in zip(("policy", "critic"), peer.observations.values(), strict=True)
    }
    action = peer.actions["joint_pos"]
    assert action.scale is words["G1_ACTION_SCALE"]
    built = dataclasses.replace(
        load_env_cfg(get_task(task_id)),
        **translation.rest(peer),
        observations=terms(**groups),
        commands=terms(twist=translation.command(peer.commands["twist"])),
        actions=terms(
            joint_pos=mdp.JointPositionActionCfg(
                asset_name=action.entity_name,
                joint_names=list(action.actuator_names),
                scale=ACTION_SCALE,
                use_default_offset=action.use_default_offset,
            )
        ),
    )
    assert len(translation.seen) > 30
    assert_same(built, task_id)
