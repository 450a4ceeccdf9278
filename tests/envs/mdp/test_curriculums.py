"""Stages of velocities, whose ranges show in the draws."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, SceneEntityCfg, mdp
from envlab.envs.managers import CurriculumTermCfg
from envlab.envs.terms import observation
from tests.envs.hopper import make_env, step
from tests.envs.promises import assert_keeps_promises
from tests.envs.refusals import assert_refused
from tests.envs.sliders import assert_spans, group, make_cfg, rank, terms

STAGES = [
    {"step": 0, "lin_vel_x": (-1.0, 1.0), "ang_vel_z": (-0.5, 0.5)},
    {"step": 3, "lin_vel_x": (2.0, 3.0), "ang_vel_z": (-0.7, 0.7)},
    {"step": 5, "lin_vel_x": (4.0, 5.0)},
]


def staged(stages=STAGES, num_envs: int = 64, **fields):
    """Return robots whose commands are drawn in each step, from the ranges of ``stages``."""
    params = {"command_name": "go", "velocity_stages": stages}
    curriculum = CurriculumTermCfg(func=mdp.commands_vel, params=params)
    cfg = mdp.UniformVelocityCommandCfg(
        resampling_time_range=(0.0, 0.0), rel_standing_envs=0.0, **fields
    )
    seen = group(go=observation(mdp.generated_commands, command_name="go"))
    return make_env(
        num_envs,
        commands=terms(go=cfg),
        curriculum=terms(speeds=curriculum),
        observations=terms(policy=seen),
    )


def test_velocities_grow_in_the_step_of_their_stage():
    env = staged(heading_command=False)
    drawn = env.command_manager.get_command("go")
    seen = []
    for _ in range(6):
        step(env)
        seen.append(drawn.clone())
    # The third stage sets no turning velocity; the second's stays.
    for number, ahead, turning in ((0, -1.0, 0.5), (1, -1.0, 0.5), (2, 2.0, 0.7), (4, 4.0, 0.7)):
        width = 2.0 if number < 2 else 1.0
        assert_spans(seen[number][:, 0], ahead, ahead + width, margin=0.15)
        assert_spans(seen[number][:, 2], -turning, turning, margin=0.15)


def test_stages_bound_how_fast_robots_turn_to_their_heading():
    env = staged(heading_control_stiffness=1000.0)
    turning = env.command_manager.get_command("go")[:, 2]
    step(env)
    assert turning.abs().tolist() == pytest.approx([0.5] * 64)
    for _ in range(2):
        step(env)
    assert turning.abs().tolist() == pytest.approx([0.7] * 64)


def test_wrong_stages_are_refused_in_the_first_step():
    goal = mdp.UniformCommandCfg(resampling_time_range=(1.0, 1.0), ranges=[(0.0, 1.0)])
    env, mask = make_env(commands=terms(go=goal)), torch.ones(1, dtype=torch.bool)
    table = {
        "key 'lin_vel'; it has step and any of lin_vel_x": {"step": 9, "lin_vel": (0.0, 1.0)},
        "has no 'step'": {"lin_vel_x": (0.0, 1.0)},
        r"\[1.0, 0.0\], but must be \[lower, upper\]": {"step": 9, "lin_vel_x": (1.0, 0.0)},
    }
    assert_refused(
        {words: lambda stage=stage: step(staged([stage])) for words, stage in table.items()}
        | {"'go' is a UniformCommandCfg": lambda: mdp.commands_vel(env, mask, "go", STAGES)}
    )


def test_difficulty_follows_an_objects_distance_to_its_place():
    """The ball is at (0, 0, 1), the arm at (2, 0, 2), in whose frame the place is (-2, 0, -1)."""
    near = [(-2.05, -2.05), (0.0, 0.0), (-1.0, -1.0), (1.0, 1.0), *[(0.0, 0.0)] * 3]
    far = [(-2.2, -2.2), *near[1:]]
    turned = [*near[:3], (0.0, 0.0), (1.0, 1.0), *near[5:]]
    for ranges, rot_tol, level in ((near, 0.1, 3.0), (far, None, 1.0), (turned, 0.1, 1.0)):
        entities = {"asset_cfg": SceneEntityCfg("arm"), "object_cfg": SceneEntityCfg("ball")}
        params = {**entities, "rot_tol": rot_tol, "init_difficulty": 2, "command_name": "goal"}
        term = CurriculumTermCfg(func=mdp.DifficultyScheduler, params=params)
        cfg = make_cfg(
            2,
            sim={"dt": 1e-4, "data_fields": ("xpos", "xquat")},
            commands=terms(
                goal=mdp.UniformCommandCfg(resampling_time_range=(1.0, 1.0), ranges=ranges)
            ),
            curriculum=terms(level=term),
            actions=terms(force=mdp.JointEffortActionCfg(joint_names="elbow")),
            episode_length_s=1e-4,
        )
        cfg.scene = SceneCfg(num_envs=2, model=str(Path(__file__).with_name("parts.xml")))
        env = ManagerEnv(cfg, context=rank(0, 1), seed=0)
        env.step(torch.zeros(2, 1))
        scheduler = env.memories["curriculum.level"]
        assert scheduler.current_adr_difficulties.tolist() == [level] * 2


def test_stages_keep_the_promises_of_every_task():
    """Steps are recorded in the sixth; the second stage comes in the twelfth."""
    stages = [STAGES[0], STAGES[1] | {"step": 12}]
    env = staged(stages, 8, heading_control_stiffness=1000.0, rel_heading_envs=0.5)
    assert_keeps_promises(env.cfg, but="of one seed")
