"""Left and right exchanged: as an involution, and in the simulation itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mujoco
import pytest
import torch

from envlab.envs import ManagerEnv
from envlab.envs.mirror import Mirror, Reflection
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from tests.envs.refusals import assert_refused
from tests.tasks import making

VELOCITY = (
    *("Flat-Unitree-Go2", "Flat-H1", "Flat-G1", "Rough-Unitree-Go2", "Rough-G1"),
    *("Rough-Unitree-Go1", "Rough-Anymal-D", "Flat-Spot"),
)
TASKS = [
    *(f"Isaac-Velocity-{name}-v0" for name in VELOCITY),
    *("Mjlab-Velocity-Flat-Unitree-G1", "Playground-T1JoystickFlatTerrain-v0"),
    "LeggedGym-Flat-A1-v0",
    *("Isaac-Ant-v0", "Isaac-Humanoid-v0"),
]
DIFFERENCES = {
    "Isaac-Ant-v0": 1e-6,
    "Isaac-Humanoid-v0": 1e-6,
    "Isaac-Velocity-Flat-Unitree-Go2-v0": 5e-3,
    "LeggedGym-Flat-A1-v0": 0.02,
    "Isaac-Velocity-Flat-G1-v0": 0.03,
    "Isaac-Velocity-Flat-H1-v0": 0.05,
    "Isaac-Velocity-Flat-Unitree-Go1-v0": 0.17,
    "Isaac-Velocity-Flat-Anymal-D-v0": 0.04,
    "Mjlab-Velocity-Flat-Unitree-G1": 0.03,
    "Playground-T1JoystickFlatTerrain-v0": 0.13,
}
"""Largest difference of an observation, or of a reward, after 10 steps on a plane, about twice the
measured one: in the files of real robots the two sides have slightly different masses."""

UNEVEN = "Mjlab-Velocity-Flat-Unitree-G1"
"""A robot whose left sole is a millimetre wider than its right one, in mjlab's file too."""


def some(cases: Iterable[Any], *words: str) -> list[Any]:
    """Return cases, tasks or tuples with one; those that contain none of the words are long."""
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    marks = [[] if any(word in row[0] for word in words) else [pytest.mark.long] for row in rows]
    return [pytest.param(*row, marks=mark) for row, mark in zip(rows, marks, strict=True)]


def make(task_id: str, **fields: Any) -> ManagerEnv:
    return making.make(task_id, num_envs=2, seed=3, **fields)


@pytest.mark.parametrize("task_id", some(TASKS, "Rough-G1", "Flat-Spot", "T1", "A1", "Ant"))
def test_a_reflection_of_a_reflection_is_the_original(task_id: str):
    env = make(task_id)
    mirror = Mirror(env)
    pairs = [(mirror.actions, env.actions), *((mirror.obs[g], env.obs_buf[g]) for g in mirror.obs)]
    for reflection, like in pairs:
        values = torch.randn(5, like.shape[1])
        image = reflection(values)
        assert not torch.equal(image, values)
        assert torch.equal(reflection(image), values)
    env.close()


def reflected_state(
    env: ManagerEnv, mirror: Mirror, qpos: torch.Tensor, qvel: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mirror image of a state of the simulation, one row, root joint first."""
    model = env.sim.model
    vector, turn = torch.tensor([1.0, -1.0, 1.0]), torch.tensor([-1.0, 1.0, -1.0])
    assert model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    joints = [model.joint(j).name for j in range(1, model.njnt)]
    quat = qpos[3:7] * torch.tensor([1.0, -1.0, 1.0, -1.0])
    of_joints = mirror.joints(joints)
    return (
        torch.cat((qpos[:3] * vector, quat, of_joints(qpos[7:]))),
        torch.cat((qvel[:3] * vector, qvel[3:6] * turn, of_joints(qvel[6:]))),
    )


def start_in_both_worlds(env: ManagerEnv, mirror: Mirror, height: float) -> None:
    """Put the first robot into a random state near its start, and the second one into its image."""
    generator = torch.Generator().manual_seed(5)

    def noise(size: int) -> torch.Tensor:
        return torch.rand(size, generator=generator) * 2.0 - 1.0

    qpos, qvel = env.default_qpos[0].clone(), 0.3 * noise(env.sim.model.nv)
    qpos[2] += height
    qpos[3:7] = torch.nn.functional.normalize(qpos[3:7] + 0.1 * noise(4), dim=0)
    qpos[7:] += 0.05 * noise(len(qpos) - 7)
    states = zip((qpos, qvel), reflected_state(env, mirror, qpos, qvel), strict=True)
    everyone = torch.ones(2, dtype=torch.bool)
    env.sim.reset(everyone, *(torch.stack(pair) for pair in states))
    names = {"base_velocity", "twist", "joystick"}.intersection(env.command_manager.active_terms)
    if names:
        command = torch.tensor([[0.8, 0.3, -0.4]])
        image = command * torch.tensor([[1.0, -1.0, -1.0]])
        term = env.command_manager.get_term(names.pop())
        term.hold(command[0].tolist())
        term.command.copy_(torch.cat((command, image)))
    if "phase" in env.command_manager.active_terms:
        gait: Any = env.command_manager.get_term("phase")
        gait.phase.copy_(torch.tensor([[1.0, -2.0], [-2.0, 1.0]]))
        gait.frequency.fill_(1.5)


# T1's feet touch the ground a step earlier on one side, which decides what the critic sees.
@pytest.mark.parametrize(
    ("task_id", "height"),
    [
        *some([(task, 1.0) for task in DIFFERENCES], "Ant", "T1", "A1"),
        *some([(task, 0.0) for task in list(DIFFERENCES)[:-1] if task != UNEVEN], "Go2", "Mjlab"),
    ],
)
def test_the_mirrored_robot_moves_as_the_image_of_the_robot(task_id: str, height: float):
    env = make(task_id, events=None, terminations=None)
    mirror = Mirror(env)
    start_in_both_worlds(env, mirror, height)
    generator = torch.Generator().manual_seed(9)
    largest = 0.0
    for _ in range(10):
        action = 0.5 * torch.randn(env.actions.shape[1], generator=generator)
        _, rewards, *_ = env.step(torch.stack((action, mirror.actions(action))))
        largest = max(largest, float((rewards[1] - rewards[0]).abs()))
        for group, found in env.observation_manager.compute(corrupt=False).items():
            image = mirror.obs[group](found[0])
            scale = found.abs().amax(dim=0).clamp(min=1.0)
            largest = max(largest, float(((found[1] - image) / scale).abs().max()))
            moved = float((found[1] - found[0]).abs().max())
            assert moved > 0.3  # the two are not the same
    assert largest < DIFFERENCES[task_id]
    env.close()


def test_what_has_no_mirror_image_is_refused():
    go2, ant = "Isaac-Velocity-Flat-Unitree-Go2-v0", "Isaac-Ant-Direct-v0"
    unknown, skewed, bounded = (load_env_cfg(get_task(go2)) for _ in range(3))
    unknown.observations.policy.base_lin_vel.func = unknown_term
    skewed.actions.joint_pos.scale = {"FL_.*": 0.25, "(FR|RL|RR)_.*": 0.5}
    bounded.actions.joint_pos.clip = {"FL_hip_joint": (-0.5, 0.2), "FR_hip_joint": (-0.5, 0.2)}
    with_bounds = make(go2, actions=bounded.actions)
    with_unknown = make(go2, observations=unknown.observations)
    with_skewed, code = make(go2, actions=skewed.actions), make(ant)
    assert_refused(
        {
            "does not square to the identity: column": lambda: Reflection([1, 0], [1.0, -1.0]),
            "to the identity: column": lambda: Reflection([1, 2, 0], [1.0] * 3),
            r"'base_lin_vel' of the group 'policy' \(unknown": lambda: Mirror(with_unknown),
            "scale of the action 'joint_pos' are not symm": lambda: Mirror(with_skewed),
            "bounds of the action 'joint_pos' are not symm": lambda: Mirror(with_bounds),
            "AntDirectEnv is not manager-based": lambda: Mirror(code),
        }
    )


def unknown_term(env: ManagerEnv) -> torch.Tensor:
    return env.sim.data.qpos[:, :1]


def test_the_joints_at_the_image_are_found_by_their_place_and_not_their_name():
    """Ant's front right leg is behind and on the left."""
    env = make("Isaac-Ant-v0")
    joints = Mirror(env).joints(["front_left_leg", "right_back_leg"])
    assert (joints.places, joints.signs) == ([1, 0], [-1.0, -1.0])
    with pytest.raises(ConfigurationError, match="'front_left_leg' has the mirror image 'right_b"):
        Mirror(env).joints(["front_left_leg", "front_right_leg"])
    env.close()
