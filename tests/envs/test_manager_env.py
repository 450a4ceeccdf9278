"""Managers together: randomness depends on the environment alone, and all of it resumes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import GaussianNoiseCfg, ManagerEnv, SceneEntityCfg, UniformNoiseCfg, mdp
from envlab.envs.manager_env import ManagerEnvCfg
from envlab.envs.managers import CurriculumTermCfg, EventTermCfg, ObservationTermCfg
from envlab.envs.terms import at_intervals, at_reset, observation, reward, termination
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


def rollout(env: ManagerEnv, actions: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the results of ``actions``, ``(steps, num_envs, 1)``, per step and environment."""
    rows: dict[str, list[torch.Tensor]] = {}
    for action in actions:
        obs, *results, _ = env.step(action)
        seen = dict(zip(("reward", "terminated", "truncated"), results, strict=True))
        seen |= {"obs": obs["policy"], "qpos": env.sim.data.qpos, "mass": env.sim.params.body_mass}
        for name, values in seen.items():
            rows.setdefault(name, []).append(values.clone())
    return {name: torch.stack(values) for name, values in rows.items()}


def actions_for(num_envs: int, steps: int = 30) -> torch.Tensor:
    return torch.rand(steps, num_envs, 1, generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0


def assert_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    for name, values in first.items():
        assert torch.equal(values, second[name]), name


def test_two_ranks_see_the_same_as_one_process():
    """Also where, in one step, an environment is reset and another's clocks are due."""
    actions = actions_for(6)
    whole = make(6)
    expected = rollout(whole, actions)
    some, everyone = expected["terminated"].any(dim=1), expected["terminated"].all(dim=1)
    assert (some & ~everyone).sum() > 3  # resets are spread out, or this test shows little
    envs = [make(2, context=rank(index, 3)) for index in range(3)]
    parts = [rollout(env, actions[:, 2 * i : 2 * i + 2]) for i, env in enumerate(envs)]
    joined = {name: torch.cat([part[name] for part in parts], dim=1) for name in expected}
    # torch sums a reward's terms in an order that depends on the batch, so its last bit may differ.
    assert torch.allclose(joined.pop("reward"), expected.pop("reward"), rtol=1e-5, atol=1e-7)
    assert_equal(joined, expected)


def test_a_restored_state_has_the_same_future_bit_for_bit():
    env = make(seed=1)
    rollout(env, actions_for(6, steps=17))
    state = env.state()
    expected = rollout(env, actions_for(6))
    other = make(seed=2)
    for restored in (env, other):
        restored.set_state(state)
        assert_equal(rollout(restored, actions_for(6)), expected)


def test_a_log_after_a_resume_speaks_of_the_whole_episode():
    env, other = make(seed=1), make(seed=2)
    rollout(env, actions_for(6, steps=4))
    other.set_state(env.state())
    for action in actions_for(6, steps=12):
        log, other_log = (each.step(action)[-1]["log"] for each in (env, other))
        assert log == other_log


def test_a_saved_state_does_not_change_with_the_environment():
    env = make()
    state = env.state()
    copy = deepcopy(state)
    rollout(env, actions_for(6))
    assert_equal(copy["sim"], state["sim"])
    goals = (each["command_manager"]["terms"]["goal"]["command"] for each in (copy, state))
    assert torch.equal(*goals)


def test_a_step_runs_in_isaac_labs_order():
    order: list[str] = []

    def note(name: str, result):
        def term(env, mask=None, stream=None):
            order.append(name)
            return result(env)

        return term

    def zeros(env):
        return torch.zeros(env.num_envs)

    seen = group(o=observation(note("observe", lambda e: zeros(e)[:, None])))
    env = make_env(
        2,
        observations=terms(policy=seen),
        terminations=terms(t=termination(note("terminate", lambda e: zeros(e) == 0))),
        rewards=terms(r=reward(note("reward", zeros), 1.0)),
        events=terms(
            e=at_reset(note("reset", zeros)), i=at_intervals((0.1, 0.1), note("interval", zeros))
        ),
        curriculum=terms(c=CurriculumTermCfg(func=note("curriculum", lambda e: None))),
    )
    order.clear()
    env.step(torch.zeros(2, 1))
    assert order == [
        *("terminate", "reward", "curriculum"),
        "observe",  # the final observation
        *("reset", "interval", "observe"),
    ]
