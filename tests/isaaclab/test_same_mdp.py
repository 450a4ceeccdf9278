"""Tasks of the registry beside Isaac Lab's own, which computes on our simulator.

Isaac Lab's files step 256 environments and write down states, actions and all that their managers
compute. Ours are put into the same states, and compute the same; what depends on more than the
state, such as efforts, is compared after a step of our own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch

import envlab.registry
from envlab.envs.entities import SceneEntityCfg, resolve_entity
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from envlab_isaaclab import upstream

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TASKS = [
    "Isaac-Cartpole-v0",
    "Isaac-Ant-v0",
    "Isaac-Humanoid-v0",
    "Isaac-Velocity-Flat-Anymal-B-v0",
    "Isaac-Velocity-Flat-Anymal-C-v0",
    "Isaac-Velocity-Flat-Anymal-D-v0",
    "Isaac-Velocity-Flat-Cassie-v0",
    "Isaac-Velocity-Flat-Unitree-A1-v0",
    "Isaac-Velocity-Flat-Unitree-Go1-v0",
    "Isaac-Velocity-Flat-Unitree-Go2-v0",
    "Isaac-Velocity-Rough-Unitree-Go2-v0",
    "Isaac-Velocity-Flat-H1-v0",
    "Isaac-Velocity-Rough-H1-v0",
    "Isaac-Velocity-Flat-G1-v0",
    "Isaac-Velocity-Rough-G1-v0",
    "Isaac-Reach-Franka-v0",
    "Isaac-Reach-UR10-v0",
    "Isaac-Lift-Cube-Franka-v0",
    "Isaac-Open-Drawer-Franka-v0",
    "Isaac-Repose-Cube-Allegro-v0",
]
STEPPED = {
    "dof_torques_l2",
    "dof_acc_l2",
    "feet_air_time",
    "feet_slide",
    "undesired_contacts",
    "feet_body_forces",
    "progress",
}
"""Terms of more than a state: of efforts, accelerations, contacts, or the state before."""
OF_EPISODES = {"time_out", "base_contact", "max_consecutive_success"}
"""Terminations of more than a state."""
DIFFERS = {
    "Isaac-Ant-v0 joint_pos_limits": "ours is at most 1 for each joint (docs/tasks.md)",
    "Isaac-Humanoid-v0 joint_pos_limits": "as Ant's",
    **{
        f"Isaac-Velocity-Flat-Anymal-{kind}-v0 dof_{what}_l2": "its motors' network is Nvidia's"
        for kind in "BCD"
        for what in ("torques", "acc")
    },
    "Isaac-Velocity-Flat-Unitree-A1-v0 dof_acc_l2": "its motors damp within a step (its docstring)",
    "Isaac-Repose-Cube-Allegro-v0 robot root_pose": "a palm's frame is its file's",
    "Isaac-Open-Drawer-Franka-v0 align_ee_handle": "as the frame of the handle",
}
"""Differences with their reasons."""


@pytest.fixture(params=TASKS)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any, Any]:
    """A task, what Isaac Lab saw in it, and our environments."""
    task = request.param
    try:
        upstream.find()
    except ConfigurationError as error:
        pytest.skip(f"needs Isaac Lab's files: {error}")
    script, out = Path(__file__).with_name("judge.py"), tmp_path / "seen.pt"
    words = ["-m", "envlab_isaaclab", script, f"--task={task}", "--headless", "--device=cpu"]
    done = subprocess.run(
        [sys.executable, *map(str, words), f"--out={out}"],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert out.exists(), done.stderr[-3000:]
    seen = torch.load(out)
    env = make(task, len(seen["mass"]))
    yield task, seen, env
    env.close()


def test_a_task_is_isaac_labs(both: tuple[str, Any, Any]):
    task, seen, env = both
    assert seen["durations"] == pytest.approx((env.max_episode_length, env.step_dt, env.physics_dt))
    unlike = [
        name
        for name in unlike_numbers(seen, env)
        if f"{task} {name}".rstrip(" 0123456789") not in DIFFERS
    ]
    assert unlike == []
    found = differences(seen, env)
    limits = {name: 0.3 if is_stepped(name) else 1e-5 for name in found}
    far = {
        name: value
        for name, value in found.items()
        if not value < limits[name] and f"{task} {name}" not in DIFFERS
    }
    assert far == {}
    assert different_ends(seen, env) == []


def make(task: str, num_envs: int) -> Any:
    """Return a task without noise, on a plane, reset."""
    envlab.registry.discover()
    cfg: Any = load_env_cfg(get_task(task))
    for group in fields(cfg.observations):
        getattr(cfg.observations, group.name).enable_corruption = False
    if getattr(cfg.scene, "terrain", None) is not None:
        cfg.scene.terrain = None
        cfg.curriculum.terrain_levels = None
    env = gymnasium.make_vec(task, num_envs=num_envs, cfg=cfg)
    env.reset(seed=1)
    return env


def unlike_numbers(seen: Any, env: Any) -> list[str]:
    """Return the numbers of a reset that we draw from other distributions, or other bounds."""
    state = ordered(seen["first"]["state"], env, seen["joints"])
    ours, theirs = (numbers_of(one, env) for one in (env.scene.get_state(is_relative=True), state))
    robot = resolve_entity(SceneEntityCfg("robot"), env.sim.model, env.device)
    masses = torch.from_numpy(env.sim.model.body_mass).expand(env.num_envs, -1)
    if "body_mass" in env.cfg.sim.model_fields:
        masses = env.sim.params.body_mass
    ours["mass"], theirs["mass"] = masses[:, robot.body_ids].sum(dim=1), seen["mass"]
    for name, values in seen["first"]["commands"].items():
        for key, value in values.items():
            own = command_of(env, name, key)
            if own is not None:
                theirs |= columns(f"command {name} {key}", one_quaternion(value))
                ours |= columns(f"command {name} {key}", one_quaternion(own))
    assert ours.keys() == theirs.keys()
    return [
        name
        for name in ours
        if not is_alike(ours[name].double(), theirs[name].double(), 0.2 if name == "mass" else 0.01)
    ]


def is_alike(ours: torch.Tensor, theirs: torch.Tensor, share: float) -> bool:
    """Return whether samples may be of one distribution, with ends a share of it apart at most.

    A mass is a sum of many draws, whose ends are rare.
    """
    from scipy.stats import ks_2samp  # only by night: each worker would import it

    slack = share * (theirs.max() - theirs.min()) + 1e-3
    ends = torch.stack((ours.min() - theirs.min(), ours.max() - theirs.max()))
    p = ks_2samp(ours.round(decimals=3), theirs.round(decimals=3)).pvalue
    return bool(p > 1e-5 and (ends.abs() < slack).all())


def numbers_of(state: Any, env: Any) -> dict[str, torch.Tensor]:
    """Return all numbers of a scene's state by name, ``(num_envs,)`` each."""
    found = {}
    for things in state.values():
        for thing, values in things.items():
            for key, value in values.items():
                value = one_quaternion(value) if key == "root_pose" else value
                names = env.scene[thing].joint_names if key.startswith("joint") else None
                found |= columns(f"{thing} {key}", value, names)
    return found


def one_quaternion(values: torch.Tensor) -> torch.Tensor:
    """Return poses with one of a rotation's two quaternions, and anything else as it is."""
    if values.dim() < 2 or values.shape[1] != 7:
        return values
    signs = torch.where(values[:, 3:4] < 0.0, -1.0, 1.0)
    return torch.cat((values[:, :3], signs * values[:, 3:]), dim=1)


def columns(
    name: str, values: torch.Tensor, names: Sequence[str] | None = None
) -> dict[str, torch.Tensor]:
    parts = values.flatten(1).unbind(1) if values.dim() > 1 else [values]
    keys = names or range(len(parts))
    return {f"{name} {key}": part for key, part in zip(keys, parts, strict=True)}


def command_of(env: Any, name: str, key: str) -> torch.Tensor | None:
    """Return our tensor for one of their command terms'."""
    own = getattr(env.command_manager.get_term(name), key, None)
    return own if isinstance(own, torch.Tensor) and not key.startswith("_") else None


def different_ends(seen: Any, env: Any) -> list[str]:
    """Return the terminations that end other environments, whose things are anywhere."""
    put(env, seen["anywhere"]["state"], seen["joints"])
    env.termination_manager.compute()
    ours = env.termination_manager.episode_values()
    assert {f"Episode_Termination/{name}" for name in seen["anywhere"]["ends"]} == set(ours)
    return [
        name
        for name, ends in seen["anywhere"]["ends"].items()
        if name not in OF_EPISODES and not torch.equal(ours[f"Episode_Termination/{name}"], ends)
    ]


def differences(seen: Any, env: Any) -> dict[str, float]:
    """Return each term's largest difference over steps and environments; of some, the median."""
    robot = env.scene["robot"]
    joints = order(seen["joints"]["robot"], robot.joint_names)
    names = env.action_manager.names()
    acted = joints  # of terms that say no names
    if set(names) - set(robot.joint_names) != set(names):
        acted = order(seen["acted"], names)
    put(env, seen["start"]["state"], seen["joints"])
    command(env, seen["start"]["commands"])
    before = seen["start"]["commands"]
    found: dict[str, float] = {}
    for step in seen["steps"]:
        goes_on = ~step["ended"]
        obs, *_ = env.step(step["actions"][:, acted])
        of_step = observed(env, obs) | rewards(env)
        put(env, step["state"], seen["joints"])
        command(env, before)
        env.reward_manager.compute()
        values = rewards(env)
        command(env, before := step["commands"])
        values |= observed(env, env.observation_manager.compute(corrupt=False))
        theirs = {
            name: value[:, order_of(name, value, joints, acted)]
            for name, value in step["observations"].items()
        } | step["rewards"]
        assert theirs.keys() == values.keys()
        for name, value in theirs.items():
            own = (of_step if is_stepped(name) else values)[name][goes_on]
            errors = (own - value[goes_on]).abs() / value.abs().max().clamp(min=1.0)
            if is_stepped(name):
                scale = value[goes_on].abs().mean().clamp(min=1e-9)
                errors = ((own - value[goes_on]).abs() / scale).median()
            found[name] = max(found.get(name, 0.0), errors.max().item())
    return found


def is_stepped(name: str) -> bool:
    """Return whether a term depends on more than a state."""
    return name.rpartition(".")[2] in STEPPED


def rewards(env: Any) -> dict[str, torch.Tensor]:
    """Return the terms of the last rewards, per second."""
    manager = env.reward_manager
    values = manager.step_values / env.step_dt
    return dict(zip(manager.active_terms, values.clone(), strict=True))


def observed(env: Any, obs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return each term's part of the observations."""
    manager = env.observation_manager
    return {
        f"{group}.{name}": obs[group][:, part].clone()
        for group in manager.active_terms
        for name, part in manager.columns(group).items()
    }


def order(theirs: Sequence[str], ours: Sequence[str]) -> list[int]:
    """Return the places in their list of what ours names."""
    return [theirs.index(name) for name in ours]


def order_of(name: str, value: torch.Tensor, joints: list[int], acted: list[int]) -> list[int]:
    """Return the places of an observation's columns: joints have another order there."""
    for word, places in (("joint", joints), ("action", acted)):
        if word in name and value.shape[1] == len(places):
            return places
    return list(range(value.shape[1]))


def ordered(state: Any, env: Any, joints: dict[str, list[str]]) -> Any:
    """Return a state of theirs with joints in our order; their cabinet has three more."""
    things = {
        name: {
            key: value[:, order(joints[name], env.scene[name].joint_names)]
            if key.startswith("joint")
            else value
            for key, value in values.items()
        }
        for name, values in state["articulation"].items()
    }
    return {"articulation": things, "rigid_object": state["rigid_object"]}


def put(env: Any, state: Any, joints: dict[str, list[str]]) -> None:
    """Put all environments into a state of theirs."""
    everywhere = torch.ones(env.num_envs, dtype=torch.bool)
    env.scene.reset_to(ordered(state, env, joints), everywhere, is_relative=True)


def command(env: Any, values: dict[str, dict[str, torch.Tensor]]) -> None:
    """Give the command terms their values."""
    for name, tensors in values.items():
        for key, value in tensors.items():
            own = command_of(env, name, key)
            if own is not None:
                own.copy_(value)
