"""Curriculum terms run in every step, so that all ranks harden the task in the same one."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.managers import CurriculumTermCfg
from envlab.envs.terms import reward
from tests.envs.refusals import assert_refused
from tests.envs.sliders import make_env, push, terms


def test_terms_get_the_mask_of_the_environments_that_are_about_to_be_reset():
    masks = []

    def watch(env, mask) -> torch.Tensor:
        masks.append(mask.tolist())
        return mask.sum()

    def silent(env, mask) -> None:
        """Return nothing, which is not logged."""

    both = terms(watch=CurriculumTermCfg(func=watch), silent=CurriculumTermCfg(func=silent))
    env = make_env(3, curriculum=both)
    push(env, 0.0, 0.0, 0.0)
    env.episode_length_buf[:] = torch.tensor([9, 0, 9])
    info = push(env, 0.0, 0.0, 0.0)[-1]
    assert masks == [[False, False, False], [True, False, True]]
    assert info["log"] == {"Curriculum/watch": 2.0, "Episode_Termination/time_out": 1.0}


def test_modify_reward_weight_waits_for_its_steps():
    """The change is made at the end of step 11, whether or not an episode ends there."""
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


def staged(stages=STAGES, **sim) -> ManagerEnv:
    """Return an environment whose reward is 1 per second, and then as the stages say."""
    params = {"reward_name": "scaled", "stages": stages}
    harder = CurriculumTermCfg(func=mdp.reward_curriculum, params=params)
    rewards = terms(scaled=reward(scaled, 1.0, factor=1.0))
    return make_env(1, sim=sim, rewards=rewards, curriculum=terms(harder=harder))


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
