"""Managers together: randomness depends on the environment alone, and all of it resumes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import GaussianNoiseCfg, ManagerEnv, SceneEntityCfg, UniformNoiseCfg, mdp
from envlab.envs.manager_env import ManagerEnvCfg, active_terms
from envlab.envs.managers import CurriculumTermCfg, EventTermCfg, ObservationTermCfg
from envlab.envs.terms import at_reset, at_startup, observation, reward, termination
from tests.envs.promises import assert_keeps_promises
from tests.envs.sliders import group, joint, make_cfg, make_env, rank, terms

OFFSETS = {"position_range": (-1.0, 1.0), "velocity_range": (-1.0, 1.0)}


def heavier(mode: str, body: str, **kwargs: Any) -> EventTermCfg:
    params = {"mass_distribution_params": (0.5, 2.0), "operation": "scale"}
    params["asset_cfg"] = SceneEntityCfg(body_names=body)
    return EventTermCfg(func=mdp.randomize_rigid_body_mass, mode=mode, params=params, **kwargs)


def noisy_cfg(num_envs: int) -> ManagerEnvCfg:
    """Return a task that draws wherever a task can: states, masses, commands, noise, intervals.

    Episodes end by a limit on the position, so that environments are reset at different times.
    """
    seen = group(
        enable_corruption=True,
        pos=ObservationTermCfg(func=mdp.joint_pos, noise=UniformNoiseCfg()),
        vel=ObservationTermCfg(func=mdp.joint_vel, noise=GaussianNoiseCfg(std=0.1)),
        goal=observation(mdp.generated_commands, command_name="goal"),
    )
    force = mdp.JointEffortActionCfg(joint_names="push", noise=UniformNoiseCfg(), scale=9.0)
    goal = mdp.UniformCommandCfg(resampling_time_range=(0.1, 0.4), ranges=[(-1.0, 1.0)])
    later = {"term_name": "smooth", "weight": -0.2, "num_steps": 12}
    beyond = {"asset_cfg": joint("push"), "bounds": (-1.2, 1.2)}
    return make_cfg(
        num_envs,
        sim={"model_fields": ("body_mass", "body_inertia"), "num_threads": 1},
        observations=terms(policy=seen),
        actions=terms(force=force),
        commands=terms(goal=goal),
        events=terms(
            built=heavier("startup", "push"),
            offset=at_reset(mdp.reset_joints_by_offset, **OFFSETS),
            fresh=heavier("reset", "servo"),
            worn=heavier("interval", "drive", interval_range_s=(0.1, 0.4)),
        ),
        rewards=terms(alive=reward(mdp.is_alive, 1.0), smooth=reward(mdp.action_rate_l2, -0.1)),
        curriculum=terms(harder=CurriculumTermCfg(func=mdp.modify_reward_weight, params=later)),
        terminations=terms(
            time_out=termination(mdp.time_out, time_out=True),
            out=termination(mdp.joint_pos_out_of_manual_limit, **beyond),
        ),
    )


def make(num_envs: int = 6, *, seed: int = 0, context: DistributedContext | None = None):
    return ManagerEnv(noisy_cfg(num_envs), context=context or rank(0, 1), seed=seed)


def actions_for(num_envs: int, steps: int = 30) -> torch.Tensor:
    return torch.rand(steps, num_envs, 1, generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0


def test_a_log_after_a_resume_speaks_of_the_whole_episode():
    env, other = make(seed=1), make(seed=2)
    for action in actions_for(6, steps=4):
        env.step(action)
    other.set_state(env.state())
    for action in actions_for(6, steps=12):
        log, other_log = (each.step(action)[-1]["log"] for each in (env, other))
        assert log == other_log


def test_a_saved_state_does_not_change_with_the_environment():
    env = make()
    state = env.state()
    copy = deepcopy(state)
    for action in actions_for(6):
        env.step(action)
    assert all(torch.equal(values, state["sim"][name]) for name, values in copy["sim"].items())
    goals = (each["command_manager"]["terms"]["goal"]["command"] for each in (copy, state))
    assert torch.equal(*goals)


def test_a_task_that_draws_wherever_it_can_keeps_the_promises_of_every_task():
    assert_keeps_promises(noisy_cfg(8), but="of one seed")


def nothing(env, mask, stream) -> None:
    del env, mask, stream


def test_each_manager_has_a_table_of_its_terms_with_their_shapes():
    env = make_env(
        2,
        observations=terms(
            policy=group(
                pos=ObservationTermCfg(func=mdp.joint_pos, history_length=3), last=observation(two)
            ),
            critic=group(two=observation(two)),
        ),
        rewards=terms(alive=reward(mdp.is_alive, 2.5)),
        terminations=terms(late=termination(mdp.time_out, time_out=True)),
        events=terms(first=at_startup(nothing)),
    )
    width = 3 * env.sim.model.nq
    rows = [line.split() for line in active_terms(env).splitlines()]
    assert ["0", "pos", f"({width},)"] in rows
    assert ["1", "last", "(2,)"] in rows
    assert ["0", "two", "(2,)"] in rows
    assert ["0", "alive", "2.5"] in rows
    assert ["0", "late", "True"] in rows
    assert ["0", "first", "startup"] in rows
    assert f"group 'policy', ({width + 2},)" in active_terms(env)


def two(env) -> torch.Tensor:
    return torch.zeros(env.num_envs, 2)


def test_images_have_their_shape():
    def picture(env) -> torch.Tensor:
        return torch.zeros(env.num_envs, 8, 6, 1)

    env = make_env(2, observations=terms(policy=group(depth=observation(picture))))
    assert "0 depth (8, 6, 1)" in " ".join(active_terms(env).split())
