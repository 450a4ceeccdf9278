"""Curriculum terms run in every step, so that all ranks harden the task in the same one."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.managers import CurriculumTermCfg, SuccessTermCfg
from envlab.envs.terms import at_reset, at_startup, reward, termination
from envlab.sim import host
from tests.envs.refusals import assert_refused
from tests.envs.sliders import make_env, push, terms
from tests.graphs import record_steps


def test_modify_reward_weight_waits_for_its_steps():
    """The change is made at the end of step 11, whether or not an episode ends in it."""
    params = {"term_name": "alive", "weight": 3.0, "num_steps": 10}
    harder = CurriculumTermCfg(func=mdp.modify_reward_weight, params=params)
    alive = terms(alive=reward(mdp.is_alive, 1.0))
    env = make_env(1, rewards=alive, curriculum=terms(harder=harder))
    history = [push(env, 0.0) for _ in range(22)]
    earned = [float(values) for _, values, *_ in history]
    assert earned == pytest.approx([0.1] * 11 + [0.3] * 11)
    logged = [float(info["log"]["Curriculum/harder"]) for *_, info in history if info["num_ended"]]
    assert logged == [1.0, 3.0]


STAGES = [
    {"step": 2, "params": {"factor": 3.0}},
    {"step": 4, "weight": 2.0},
    {"step": 6, "weight": 1.0, "params": {"factor": 5.0, "kind": "squared"}},
]


def scaled(env, factor: float, kind: str = "plain") -> torch.Tensor:
    value = torch.full((env.num_envs,), factor)
    return value.square() if kind == "squared" else value


def staged(stages=STAGES, **fields) -> ManagerEnv:
    """Return an environment whose reward is 1 per second, and then as the stages say."""
    params = {"reward_name": "scaled", "stages": stages}
    harder = CurriculumTermCfg(func=mdp.reward_curriculum, params=params)
    rewards = terms(scaled=reward(scaled, 1.0, factor=1.0))
    return make_env(1, rewards=rewards, curriculum=terms(harder=harder), **fields)


def rewards_of(env: ManagerEnv, steps: int) -> list[float]:
    return [push(env, 0.0)[1].item() * 10.0 for _ in range(steps)]


def test_a_reward_changes_in_stages():
    """A step's own reward is that of the stage before."""
    env = staged()
    assert rewards_of(env, 8) == pytest.approx([1, 1, 3, 3, 6, 6, 25, 25])
    log = {name: float(value) for name, value in env.curriculum_manager.log().items()}
    assert log == {"Curriculum/harder/weight": 1.0, "Curriculum/harder/factor": 5.0}


def test_a_stage_outlives_a_resume():
    env, other = staged(), staged()
    for one, steps in ((env, 3), (other, 7)):
        rewards_of(one, steps)
    other.set_state(env.state())
    assert rewards_of(other, 4) == pytest.approx([3, 6, 6, 25])


def test_changes_that_do_not_fit_are_refused():
    env = make_env(1, rewards=terms(alive=reward(mdp.is_alive, 1.0)))
    mask = torch.ones(1, dtype=torch.bool)
    stages = {
        "reward has the key 'wait'; it has step and any of weight": [{"step": 1, "wait": 2.0}],
        "A stage of a reward has no 'step'": [{"weight": 2.0}],
        "scaled has no parameter 'faktor'; it has fact": [{"step": 9, "params": {"faktor": 1.0}}],
        "'scaled' at step 3 stands after one at step 9": [{"step": 9}, {"step": 3}],
    }
    assert_refused(
        {words: lambda one=one: push(staged(one), 0.0) for words, one in stages.items()}
        | {
            "no reward term 'alife'": lambda: mdp.modify_reward_weight(env, mask, "alife", 1.0, 0),
        }
    )


def after(env, mask, value, new, num_steps: int):
    """Return another value after some steps, as Isaac Lab's own examples."""
    if env.common_step_counter >= num_steps:
        return new
    return mdp.modify_env_param.NO_CHANGE


def late(env, limit: float = 100.0, offset: float = 0.0) -> torch.Tensor:
    return env.episode_length_buf + offset >= limit


def noted(env, mask, stream, size: float = 0.0) -> None:
    env.seen.append(size)


def changed(address: str, new, num_steps: int = 3, func=mdp.modify_term_cfg) -> CurriculumTermCfg:
    params = {"address": address, "modify_fn": after}
    params["modify_params"] = {"new": new, "num_steps": num_steps}
    return CurriculumTermCfg(func=func, params=params)


def changing(**curriculum: CurriculumTermCfg) -> ManagerEnv:
    ManagerEnv.seen = []
    command = mdp.UniformCommandCfg(resampling_time_range=(0.1, 0.1), ranges=[(0.0, 1.0)])
    return make_env(
        2,
        rewards=terms(scaled=reward(scaled, 1.0, factor=1.0)),
        terminations=terms(late=termination(late)),
        events=terms(note=at_reset(noted)),
        commands=terms(goal=command),
        curriculum=terms(**curriculum),
        episode_length_s=100.0,
    )


CHANGES = {
    "weight": changed("rewards.scaled.weight", 4.0),
    "kind": changed("rewards.scaled.params.kind", "squared"),
    "factor": changed("rewards.scaled.params.factor", 3.0),
    "limit": changed("terminations.late.params.limit", 2.0),
    "size": changed("events.note.params.size", 7.0),
    "goal": changed("commands.goal.ranges.0", (8.0, 9.0)),
    "hold": changed("commands.goal.resampling_time_range", (5.0, 5.0)),
}


def facts(env: ManagerEnv) -> dict[str, object]:
    term = env.command_manager.get_term("goal")
    return {
        "weight": env.reward_manager.get_weight("scaled"),
        "factor": env.reward_manager.get_params("scaled")["factor"],
        "limit": env.termination_manager.get_params("late").get("limit", 100.0),
        "size": env.event_manager.get_params("note").get("size", 0.0),
        "goal": term.cfg.ranges[0],
        "hold": term.cfg.resampling_time_range,
    }


VALUES = {
    "weight": (1.0, 4.0),
    "factor": (1.0, 3.0),
    "limit": (100.0, 2.0),
    "size": (0.0, 7.0),
    "goal": ((0.0, 1.0), (8.0, 9.0)),
    "hold": ((0.1, 0.1), (5.0, 5.0)),
}
"""Before and after the changes."""
BEFORE, AFTER = ({name: values[index] for name, values in VALUES.items()} for index in range(2))


def test_any_setting_of_a_term_changes_and_outlives_a_resume():
    env = changing(**CHANGES)
    push(env, 0.0, 0.0)
    early = env.state()
    push(env, 0.0, 0.0)
    assert facts(env) == BEFORE
    assert env.cfg.commands.goal.ranges == [(0.0, 1.0)]
    push(env, 0.0, 0.0)
    waiting = env.state()
    *_, terminated, _, _ = push(env, 0.0, 0.0)
    assert facts(env) == AFTER
    assert env.cfg.commands.goal.ranges == [(0.0, 1.0)]  # configurations never change
    assert terminated.all()
    assert env.seen[-1] == 7.0
    assert push(env, 0.0, 0.0)[1].tolist() == pytest.approx([3.6, 3.6])  # 4 times 3 squared, 0.1 s
    other = changing(**CHANGES)
    other.set_state(waiting)
    assert facts(other) == AFTER
    other.set_state(early)
    assert facts(other) == BEFORE


def gain(env) -> torch.Tensor:
    if "gain" not in env.constants:
        env.constants["gain"] = torch.ones(1)
    return env.constants["gain"].expand(env.num_envs)


def make_gain(env, mask, stream) -> None:
    gain(env)


def test_attributes_of_the_environment_change_tensors_in_place():
    def made() -> ManagerEnv:
        change = changed("constants.gain", torch.tensor([5.0]), func=mdp.modify_env_param)
        return make_env(
            2,
            rewards=terms(gain=reward(gain, 1.0)),
            events=terms(gain=at_startup(make_gain)),
            curriculum=terms(change=change),
        )

    env, other = made(), made()
    kept = env.constants["gain"]
    earned = [push(env, 0.0, 0.0)[1][0].item() for _ in range(4)]
    assert earned == pytest.approx([0.1, 0.1, 0.1, 0.5])
    assert env.constants["gain"] is kept
    other.set_state(env.state())
    assert push(other, 0.0, 0.0)[1].tolist() == pytest.approx([0.5, 0.5])


def test_recorded_steps_follow_a_change(monkeypatch):
    curricula = {
        "factor": changed("rewards.scaled.params.factor", 3.0, 12),
        "limit": changed("terminations.late.params.limit", 2.0, 12),
        "goal": changed("commands.goal.ranges.0", (8.0, 9.0), 12),
    }
    plain = changing(**curricula)
    monkeypatch.setattr(host, "HOST", set())
    recorded = changing(**curricula)
    recording = record_steps(recorded)
    for number in range(24):
        results = [push(env, 0.0, 0.0) for env in (plain, recorded)]
        assert torch.equal(results[0][1], results[1][1]), number
        assert torch.equal(results[0][2], results[1][2]), number
        goals = [env.command_manager.get_command("goal") for env in (plain, recorded)]
        assert torch.equal(*goals), number
        if number == 10:
            assert recording.is_made


def test_a_termination_changes_in_stages_and_after_a_resume_at_once():
    stages = [{"step": 2, "params": {"limit": 4.0}}, {"step": 6, "params": {"offset": 2.0}}]
    params = {"termination_name": "late", "stages": stages}
    env = changing(tight=CurriculumTermCfg(func=mdp.termination_curriculum, params=params))
    ends = [bool(push(env, 0.0, 0.0)[2].all()) for _ in range(10)]
    # From step 3 on after 4 steps, from step 7 on after 2.
    assert ends == [False, False, False, True, False, False, True, False, True, False]
    other = changing(tight=CurriculumTermCfg(func=mdp.termination_curriculum, params=params))
    other.set_state(env.state())
    assert other.termination_manager.get_params("late") == {"limit": 4.0, "offset": 2.0}


def test_difficulty_follows_success_and_moves_settings_between_two():
    def good(env) -> torch.Tensor:
        return env.env_ids < 1

    level = CurriculumTermCfg(
        func=mdp.DifficultyScheduler, params={"pos_tol": None, "max_difficulty": 4}
    )
    params = {
        "address": "rewards.scaled.params.factor",
        "modify_fn": mdp.initial_final_interpolate_fn,
        "modify_params": {"initial_value": 1.0, "final_value": 9.0, "difficulty_term_str": "level"},
    }
    easier = CurriculumTermCfg(func=mdp.modify_term_cfg, params=params)
    env = make_env(
        2,
        rewards=terms(scaled=reward(scaled, 1.0, factor=1.0)),
        curriculum=terms(level=level, easier=easier),
        success=SuccessTermCfg(func=good),
        episode_length_s=0.2,
    )
    for _ in range(17):
        push(env, 0.0, 0.0)
    scheduler = env.memories["curriculum.level"]
    assert scheduler.current_adr_difficulties.tolist() == [4.0, 0.0]
    assert scheduler.difficulty_frac == 0.5
    assert env.reward_manager.get_params("scaled")["factor"] == 5.0


def test_addresses_that_lead_nowhere_are_refused():
    def at(address: str, func=mdp.modify_term_cfg):
        return lambda: changing(one=changed(address, 1.0, func=func))

    stages = [{"step": 2, "params": {"speed": 4.0}}]
    params = {"termination_name": "late", "stages": stages}
    assert_refused(
        {
            "no reward term 'scale'; .* Did you mean scaled": at("rewards.scale.weight"),
            "has no parameter 'factors'": at("rewards.scaled.params.factors"),
            "no termination term 'lat'": at("terminations.lat.params.limit"),
            "no event 'notes'": at("events.notes.params.size"),
            "no command 'goals'": at("commands.goals.ranges.0"),
            "UniformCommandCfg has no 'range'": at("commands.goal.range"),
            "can change rewards.NAME.weight": at("observations.policy.scale"),
            "ManagerEnv has no 'nowhere'": at("nowhere", mdp.modify_env_param),
            "a row for each environment": at("episode_length_buf", mdp.modify_env_param),
            "has no parameter 'speed'": lambda: changing(
                one=CurriculumTermCfg(func=mdp.termination_curriculum, params=params)
            ),
            "env.success is null": lambda: push(
                changing(
                    one=CurriculumTermCfg(func=mdp.DifficultyScheduler, params={"pos_tol": None})
                ),
                0.0,
                0.0,
            ),
        }
    )
