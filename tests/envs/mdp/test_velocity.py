"""Rewards for following a velocity, and the commands themselves, by hand."""

from __future__ import annotations

import math

import mujoco
import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.managers import RewardTermCfg
from envlab.envs.terms import observation, termination
from envlab.errors import ConfigurationError
from envlab.state import restore, save
from tests.envs.hopper import LEFT, LEVEL, ROLLED, make_env, place, step
from tests.envs.promises import assert_keeps_promises
from tests.envs.sliders import assert_spans, group, terms
from tests.operations import Operations


def command(**fields) -> mdp.UniformVelocityCommandCfg:
    """Return a command that is always (0.5, 0, 0.2), unless ``fields`` say otherwise."""
    fixed = mdp.VelocityRangesCfg(
        lin_vel_x=(0.5, 0.5), lin_vel_y=(0.0, 0.0), ang_vel_z=(0.2, 0.2), heading=(0.0, 0.0)
    )
    defaults = {"rel_standing_envs": 0.0, "heading_command": False, "ranges": fixed}
    return mdp.UniformVelocityCommandCfg(resampling_time_range=(1.0, 1.0), **(defaults | fields))


def value_of(func, cfg=None, *, params=None, **state) -> float:
    """Return a reward term's value, per second, in a state."""
    env = make_env(
        commands=terms(go=cfg or command()),
        rewards=terms(term=RewardTermCfg(func=func, weight=1.0, params=params or {})),
    )
    place(env, **state)
    return env.reward_manager.compute().item() / env.step_dt


FOLLOW = {"command_name": "go", "std": 0.5}


def test_following_is_worth_the_kernel_of_the_error():
    yaw_frame, world_z = mdp.track_lin_vel_xy_yaw_frame_exp, mdp.track_ang_vel_z_world_exp
    for func, state, error in (
        (mdp.track_lin_vel_xy_exp, {"lin_vel": (0.5, 0.0, 9.0)}, 0.0),
        (mdp.track_lin_vel_xy_exp, {"lin_vel": (0.2, 0.4, 0.0)}, 0.5),
        # Turned to the left, forward is the world's y.
        (mdp.track_lin_vel_xy_exp, {"quat": LEFT, "lin_vel": (0.0, 0.5, 0.0)}, 0.0),
        # Rolled onto its right side, the robot's left is up and its up is to the right.
        (mdp.track_lin_vel_xy_exp, {"quat": ROLLED, "lin_vel": (0.5, 0.0, 0.3)}, 0.3),
        (yaw_frame, {"quat": ROLLED, "lin_vel": (0.5, 0.0, 0.3)}, 0.0),
        (yaw_frame, {"quat": LEFT, "lin_vel": (0.0, 0.2, 0.0)}, 0.3),
        (mdp.track_ang_vel_z_exp, {"ang_vel": (5.0, 5.0, -0.2)}, 0.4),
        (mdp.track_ang_vel_z_exp, {"quat": ROLLED, "ang_vel": (0.0, 0.2, 0.0)}, 0.2),
        (world_z, {"quat": ROLLED, "ang_vel": (0.0, 0.2, 0.0)}, 0.0),
    ):
        expected = math.exp(-((error / 0.5) ** 2))
        found = value_of(func, params=FOLLOW, **state)
        assert found == pytest.approx(expected, rel=1e-5), (func, state)


def test_penalties_of_the_root():
    for func, state, expected in (
        (mdp.lin_vel_z_l2, {"lin_vel": (7.0, 0.0, 2.0)}, 4.0),
        (mdp.lin_vel_z_l2, {"quat": ROLLED, "lin_vel": (7.0, 3.0, 2.0)}, 9.0),
        (mdp.ang_vel_xy_l2, {"ang_vel": (1.0, -2.0, 9.0)}, 5.0),
        (mdp.flat_orientation_l2, {"quat": LEVEL}, 0.0),
        (mdp.flat_orientation_l2, {"quat": LEFT}, 0.0),
        (mdp.flat_orientation_l2, {"quat": ROLLED}, 1.0),
        (mdp.flat_orientation_l2, {"quat": [math.cos(0.1), 0.0, math.sin(0.1), 0.0]}, 0.03947),
    ):
        assert value_of(func, **state) == pytest.approx(expected, abs=1e-5), (func, state)


def test_bad_orientation_ends_a_tilt_beyond_the_limit():
    fallen = termination(mdp.bad_orientation, limit_angle=1.0)
    env = make_env(terminations=terms(fallen=fallen))
    for angle, fails in ((0.9, False), (1.1, True), (-1.1, True), (3.0, True)):
        place(env, quat=[math.cos(angle / 2), math.sin(angle / 2), 0.0, 0.0])
        assert env._get_dones()[0].tolist() == [fails], angle


def test_commands_come_from_their_ranges_and_some_stand():
    ranges = mdp.VelocityRangesCfg(lin_vel_x=(-1.0, 2.0), lin_vel_y=(0.5, 0.5))
    env = make_env(2000, commands=terms(go=command(rel_standing_envs=0.2, ranges=ranges)))
    step(env)
    values = env.command_manager.get_command("go")
    stands = (values == 0.0).all(dim=1)
    assert stands.float().mean().item() == pytest.approx(0.2, abs=0.03)
    assert (values[~stands, 1] == 0.5).all()
    assert_spans(values[~stands, 0], -1.0, 2.0)
    assert_spans(values[~stands, 2], -1.0, 1.0)


def test_a_heading_command_turns_towards_its_direction():
    ranges = mdp.VelocityRangesCfg(ang_vel_z=(-1.0, 1.0), heading=(0.4, 0.4))
    env = make_env(commands=terms(go=command(heading_command=True, ranges=ranges)))
    term = env.command_manager.get_term("go")
    # Half the angle that is left, at most 1 rad/s, and the short way round.
    for yaw, turn in ((0.0, 0.2), (0.9, -0.25), (-2.6, 1.0), (3.1, -1.0), (-3.0, -1.0 + 0.0)):
        place(env, quat=[math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)])
        term.update_command()
        assert term.command[0, 2].item() == pytest.approx(turn, abs=1e-5), yaw


def test_errors_are_logged_over_the_time_between_two_draws():
    limit = termination(mdp.time_out, time_out=True)
    env = make_env(
        commands=terms(go=command()), terminations=terms(limit=limit), episode_length_s=0.05
    )
    for _ in range(5):
        place(env, lin_vel=(0.5, 0.3, 0.0), ang_vel=(0.0, 0.0, 0.1))
        info = step(env)[4]
    # 5 steps at an error of 0.3 m/s and 0.1 rad/s, that in which the episode ends among them.
    log = info["log"]
    assert log["Metrics/go/error_vel_xy"] == pytest.approx(5 * 0.3 / 100, rel=1e-2)
    assert log["Metrics/go/error_vel_yaw"] == pytest.approx(5 * 0.1 / 100, rel=1e-2)


def test_a_picture_shows_the_commanded_and_the_real_velocity_above_the_robot():
    env = make_env(commands=terms(go=command()))
    scene = mujoco.MjvScene(env.sim.model, maxgeom=10)
    place(env, height=1.0, quat=LEFT, lin_vel=(0.0, 0.8, 0.0))
    env.add_markers(scene)
    # Both point along the world's y, at half their speed; the block's arm ends 0.35 m above it.
    for arrow, length in zip(scene.geoms[: scene.ngeom], (0.25, 0.4), strict=True):
        assert arrow.type == mujoco.mjtGeom.mjGEOM_ARROW
        assert float(arrow.size[2]) == pytest.approx(length, rel=1e-4)
        assert arrow.mat[:, 2].tolist() == pytest.approx([0.0, 1.0, 0.0], abs=1e-5)
        assert arrow.pos[2] > 1.35
    place(env, height=1.0)  # a robot at rest has no arrow
    scene.ngeom = 0
    env.add_markers(scene)
    assert scene.ngeom == 1


def drawn_normally(
    num_envs: int, time_s: float = 1.0, standing: float = 0.0, **ranges
) -> ManagerEnv:
    command = mdp.NormalVelocityCommandCfg(
        resampling_time_range=(time_s, time_s),
        rel_standing_envs=standing,
        ranges=mdp.NormalVelocityRangesCfg(**ranges),
    )
    seen = group(go=observation(mdp.generated_commands, command_name="go"))
    return make_env(num_envs, commands=terms(go=command), observations=terms(policy=seen))


def test_draws_have_their_distribution_on_both_sides_of_zero():
    env = drawn_normally(4000, mean_vel=(1.0, 0.0, 3.0), std_vel=(0.1, 0.5, 0.0))
    step(env)
    values = env.command_manager.get_command("go")
    # Without a width, each is the mean or its opposite.
    assert (values[:, 2].abs() == 3.0).all()
    for column in range(3):
        assert (values[:, column] > 0.0).float().mean().item() == pytest.approx(0.5, abs=0.03)
    sizes = values[:, 0].abs()
    assert sizes.mean().item() == pytest.approx(1.0, abs=0.01)
    assert sizes.std().item() == pytest.approx(0.1, abs=0.01)
    assert values[:, 1].std().item() == pytest.approx(0.5, abs=0.03)
    # Signs are drawn for each velocity.
    assert (values[:, 0] * values[:, 2]).mean().item() == pytest.approx(0.0, abs=0.2)


def test_some_velocities_are_zero_and_some_robots_stand():
    env = drawn_normally(4000, standing=0.2, zero_prob=(0.5, 0.0, 1.0))
    step(env)
    is_zero = env.command_manager.get_command("go") == 0.0
    shares = is_zero.float().mean(dim=0).tolist()
    assert shares == pytest.approx([1.0 - 0.5 * 0.8, 0.2, 1.0], abs=0.03)
    term = env.command_manager.get_term("go")
    assert torch.equal(term.is_standing_env, is_zero[:, 1])


def test_errors_count_and_commands_may_be_held():
    env = drawn_normally(
        2, zero_prob=(1.0, 1.0, 1.0), mean_vel=(1.0, 0.0, 0.0), std_vel=(0.5, 0.25, 1.0)
    )
    step(env)
    term = env.command_manager.get_term("go")
    assert list(term.metrics) == ["error_vel_xy", "error_vel_yaw"]
    assert term.bounds()["forward (m/s)"] == (-2.0, 2.0)
    term.hold([0.5, 0.0, -1.0])
    step(env)
    assert term.command.tolist() == [[0.5, 0.0, -1.0]] * 2


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"zero_prob": (0.0, 1.5, 0.0)}, r"zero_prob .* has 1\.5, which must be between 0 and 1"),
        ({"std_vel": (-1.0, 1.0, 1.0)}, r"std_vel .* has -1\.0, which must be 0 or more"),
        ({"standing": math.nan}, r"rel_standing_envs .* has nan"),
    ],
)
def test_what_is_no_distribution_is_refused(wrong, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        drawn_normally(1, **wrong)


def test_commands_keep_the_promises_of_every_task():
    cfg = drawn_normally(8, time_s=0.03, standing=0.3, zero_prob=(0.3, 0.3, 0.3)).cfg
    assert_keeps_promises(cfg)


def test_kinds_of_commands_outlive_a_restore():
    cfg = command(heading_command=True, rel_heading_envs=0.5, rel_standing_envs=0.5)
    envs = [make_env(num_envs=64, seed=seed, commands=terms(go=cfg)) for seed in (1, 2)]
    one, other = (env.command_manager.get_term("go") for env in envs)
    assert not torch.equal(one.is_heading_env, other.is_heading_env)
    restore(other, save(one), other.command.device)
    other.resample(torch.zeros(64, dtype=torch.bool), envs[1].random.stream("none"))
    for name in ("command", "heading_target", "is_heading_env", "is_standing_env"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name


def test_errors_are_computed_once_for_rewards_and_metrics():
    params = {
        name: RewardTermCfg(func=func, weight=1.0, params=FOLLOW)
        for name, func in (("xy", mdp.track_lin_vel_xy_exp), ("z", mdp.track_ang_vel_z_exp))
    }
    env = make_env(commands=terms(go=command()), rewards=terms(**params))
    place(env, lin_vel=(0.2, 0.4, 0.0), ang_vel=(0.0, 0.0, -0.2))
    env.reward_manager.compute()
    term, ended = env.command_manager.get_term("go"), torch.zeros(1, dtype=torch.bool)
    with Operations() as operations:
        term.measure(ended)
    assert operations.count == 1
    term.command[:, 0] += 9.0  # as in a step's end
    env.command_manager.num_changes += 1
    env.reward_manager.compute()
    assert env.reward_manager.step_values[0].item() < 1e-6


def test_errors_of_a_command_that_is_computed_anew_are_kept_once(monkeypatch):
    reward = RewardTermCfg(func=mdp.track_lin_vel_xy_exp, weight=1.0, params=FOLLOW)
    env = make_env(commands=terms(go=command()), rewards=terms(xy=reward))
    term = env.command_manager.get_term("go")
    made = [term.command.clone()]  # kept, so that each has an address of its own

    def compute(_: object) -> torch.Tensor:
        made.append(made[0].clone())
        return made[-1]

    monkeypatch.setattr(type(term), "command", property(compute), raising=False)
    env.reward_manager.compute()
    num_kept = len(env.constants)
    for _ in range(3):
        place(env, lin_vel=(0.5, 0.0, 0.0))
        env.reward_manager.compute()
    assert len(env.constants) == num_kept
    assert len(made) > 4
