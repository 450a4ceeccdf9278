"""Target positions and headings, seen from the robot, by hand."""

from __future__ import annotations

import math

import mujoco
import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.terms import observation
from envlab.errors import ConfigurationError
from tests.envs import sliders
from tests.envs.hopper import LEFT, make_env, place, step
from tests.envs.promises import assert_keeps_promises
from tests.envs.sliders import assert_spans, group, terms

NEVER = (1e6, 1e6)


def make(num_envs: int = 1, *, simple: bool = False, time_s=NEVER, **ranges) -> ManagerEnv:
    command = mdp.UniformPose2dCommandCfg(
        simple_heading=simple,
        resampling_time_range=time_s,
        ranges=mdp.Pose2dRangesCfg(**ranges),
    )
    seen = group(goal=observation(mdp.generated_commands, command_name="goal"))
    return make_env(num_envs, commands=terms(goal=command), observations=terms(policy=seen))


def at(x: float, y: float, heading: float = 0.0) -> dict[str, tuple[float, float]]:
    return {"pos_x": (x, x), "pos_y": (y, y), "heading": (heading, heading)}


def facing(yaw: float) -> list[float]:
    return [math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]


def test_places_and_headings_are_drawn_from_their_ranges():
    env = make(500, pos_x=(1.0, 3.0), pos_y=(-1.0, 0.0), heading=(-0.5, 0.5))
    term = env.command_manager.get_term("goal")
    assert_spans(term.position[:, 0], 1.0, 3.0)
    assert_spans(term.position[:, 1], -1.0, 0.0)
    assert_spans(term.heading, -0.5, 0.5)


def test_the_command_is_seen_from_the_robot_once_a_step_is_over():
    env = make(**at(2.0, 3.0, heading=1.0))
    term = env.command_manager.get_term("goal")
    height = float(env.default_qpos[0, 2])
    # The robot starts at the origin, facing x, and the reset knows.
    assert term.command[0].tolist() == pytest.approx([2.0, 3.0, 0.0, 1.0])
    place(env, height=height + 0.5, quat=LEFT)
    term.update_command()
    # Turned to the left, the world's y is ahead and its x is on the right.
    turned = 1.0 - math.pi / 2
    assert term.command[0].tolist() == pytest.approx([3.0, -2.0, -0.5, turned], abs=1e-6)
    term.update()
    assert term.metrics["error_pos_2d"].item() == pytest.approx(math.sqrt(13.0))
    assert term.metrics["error_heading"].item() == pytest.approx(-turned)


@pytest.mark.parametrize(
    ("goal", "yaw", "heading"),
    [
        ((1.0, 1.0), 0.0, math.pi / 4),
        ((1.0, 1.0), -2.9, -3 * math.pi / 4),  # backwards
        ((-2.0, 0.0), 3.0, math.pi),
        ((-2.0, 0.0), 0.1, 0.0),
    ],
)
def test_a_simple_heading_is_that_of_the_way_or_its_opposite(goal, yaw, heading):
    env = make(simple=True, **at(*goal))
    term = env.command_manager.get_term("goal")
    place(env, quat=facing(yaw))
    everyone = torch.ones(1, dtype=torch.bool)
    term.resample(everyone, env.random.stream("goal"))
    error = math.remainder(term.heading.item() - heading, 2.0 * math.pi)
    assert error == pytest.approx(0.0, abs=1e-6)
    assert list(term.bounds()) == ["x (m)", "y (m)"]


def test_a_place_may_be_held():
    env = make(2, **at(0.0, 0.0))
    term = env.command_manager.get_term("goal")
    assert list(term.bounds()) == ["x (m)", "y (m)", "heading (rad)"]
    term.hold([0.5, -0.5, 0.3])
    step(env)
    assert term.position[:, :2].tolist() == [[0.5, -0.5]] * 2
    assert term.heading.tolist() == pytest.approx([0.3] * 2)
    simple = make(1, simple=True, **at(0.0, 0.0)).command_manager.get_term("goal")
    simple.hold([1.0, 1.0])
    assert simple.heading.item() == pytest.approx(math.pi / 4)


def test_the_goal_is_in_the_picture():
    env = make(**at(2.0, 1.0, heading=math.pi / 2))
    scene = mujoco.MjvScene(env.sim.model, maxgeom=5)
    env.add_markers(scene)
    assert scene.ngeom == 1
    assert scene.geoms[0].pos[:2].tolist() == pytest.approx([2.0, 1.0], abs=1e-6)
    assert scene.geoms[0].mat[:, 2].tolist() == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)


@pytest.mark.parametrize("simple", [False, True])
def test_goals_keep_the_promises_of_every_task(simple):
    wide = {"pos_x": (-2.0, 2.0), "pos_y": (-2.0, 2.0), "time_s": (0.03, 0.05)}
    assert_keeps_promises(make(8, simple=simple, **wide).cfg)


def test_ranges_and_robots_must_fit():
    with pytest.raises(ConfigurationError, match=r"range to draw from is \[1\.0, 0\.0\]"):
        make(pos_x=(1.0, 0.0))
    command = mdp.UniformPose2dCommandCfg(simple_heading=True, resampling_time_range=NEVER)
    with pytest.raises(ConfigurationError, match="has no free joint"):
        sliders.make_env(commands=terms(goal=command))
