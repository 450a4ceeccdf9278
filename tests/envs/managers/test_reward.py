"""Rewards are weight times step duration, and their episodic sums are logged per second."""

from __future__ import annotations

import math
import re

import pytest
import torch

from envlab.distributed.program import guarded
from envlab.envs import ManagerEnv, mdp
from envlab.envs.managers import RewardTermCfg
from envlab.envs.terms import reward
from envlab.errors import SimulationError
from envlab.sim import host
from tests.envs.refusals import assert_refused
from tests.envs.sliders import joint, make_env, place, push, terms

ALIVE, SPEED = 2.0, -0.5
SPEEDS = [1.0, 3.0]  # constant, as there is no friction


def alive(weight: float = ALIVE) -> RewardTermCfg:
    return reward(mdp.is_alive, weight)


def rewards(**added: RewardTermCfg) -> object:
    params = {"asset_cfg": joint("push")}
    speed = reward(mdp.joint_vel_l1, SPEED, **params)
    return terms(alive=alive(), speed=speed, **added)


def sliding() -> ManagerEnv:
    """Return two sliders at different speeds, with a time limit of 20 steps."""
    env = make_env(2, rewards=rewards(), episode_length_s=2.0)
    place(env, [[0.0] * 4] * 2, [[speed, 0.0, 0.0, 0.0] for speed in SPEEDS])
    return env


@pytest.fixture
def env() -> ManagerEnv:
    return sliding()


def test_reward_is_the_weighted_sum_times_the_step_and_a_changed_weight_counts(env):
    _, reward, *_ = push(env, 0.0, 0.0)
    # (2 - 0.5 * 1) * 0.1 and (2 - 0.5 * 3) * 0.1
    assert reward.tolist() == pytest.approx([0.15, 0.05])
    env.reward_manager.set_weight("alive", 0.5)
    assert env.reward_manager.get_weight("alive") == 0.5
    _, reward, *_ = push(env, 0.0, 0.0)
    assert reward.tolist() == pytest.approx([0.0, -0.1])
    whole = make_env(1, rewards=terms(alive=alive(1)))
    whole.reward_manager.set_weight("alive", 0.5)
    assert whole.reward_manager.get_weight("alive") == 0.5


def broken(env, num_broken: int) -> torch.Tensor:
    values = torch.zeros(env.num_envs)
    values[:num_broken] = math.nan
    return values


def test_a_term_that_is_not_finite_is_named():
    up = reward(broken, 1.0, num_broken=3)
    env = make_env(4, rewards=rewards(up=up))
    words = "reward term 'up' is not finite in 3 of 4 environments. Their states"
    with pytest.raises(SimulationError, match=words) as error:
        push(env, *[0.0] * 4)
    assert "env.sim.dt" not in str(error.value)


def test_a_term_that_is_not_finite_in_a_few_environments_is_named_in_the_log(caplog):
    up = reward(broken, 1.0, num_broken=1)
    env = make_env(4, rewards=rewards(up=up))
    push(env, *[0.0] * 4)
    env.check_health()
    assert "The reward term 'up' is not finite in 1 of 4 environments." in caplog.text


def misspelt(env) -> torch.Tensor:
    return env.no_such_thing


def test_an_exception_of_a_term_names_the_term_and_line_and_keeps_its_type(capsys):
    env = make_env(1, rewards=rewards(up=reward(misspelt, 1.0)))
    with pytest.raises(AttributeError) as caught:
        push(env, 0.0)
    (note,) = caught.value.__notes__
    place_of = r"in .*test_reward.py, line \d+: return env.no_such_thing"
    assert re.fullmatch(rf"The reward term 'up' raised AttributeError {place_of}", note)

    def work(_: object) -> int:
        push(env, 0.0)
        return 0

    assert guarded(work, []) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: The reward term 'up' raised AttributeError")
    assert len(error.splitlines()) == 2


def test_a_log_has_the_last_episodes_sums_per_second_of_the_time_limit(monkeypatch):
    """The same on a GPU. Sums over 0.4 s and 0.6 s of the ended episodes are divided by 2 s."""
    logs = []
    for kinds in ({"cpu"}, set()):  # on a GPU, the number of ended episodes is a tensor
        monkeypatch.setattr(host, "HOST", kinds)
        env = sliding()
        env.episode_length_buf[:] = torch.tensor([16, 14])
        infos = [push(env, 0.0, 0.0)[-1] for _ in range(7)]
        assert [int(info["num_ended"]) for info in infos] == [0, 0, 0, 1, 0, 1, 0]
        logs.append([{name: float(v) for name, v in info["log"].items()} for info in infos])
    assert logs[1] == [pytest.approx(log) for log in logs[0]]
    lived, speed = (
        [log[f"Episode_Reward/{name}"] for log in logs[0]] for name in ("alive", "speed")
    )
    assert lived == pytest.approx([0.0, 0.0, 0.0, 0.4, 0.4, 0.6, 0.6])  # the last values stay
    first, second = -0.5 * 1.0 * 0.4 / 2.0, -0.5 * 3.0 * 0.6 / 2.0
    assert speed == pytest.approx([0.0, 0.0, 0.0, first, first, second, second])


def test_unknown_terms_and_other_shapes_are_named(env):
    wide = reward(lambda env: torch.zeros(env.num_envs, 1), 1.0)
    wider, manager = make_env(2, rewards=terms(wide=wide)), env.reward_manager
    assert_refused(
        {
            "no reward term 'alife'.*Did you mean alive": lambda: manager.get_weight("alife"),
            r"'wide' returned shape \(2, 1\)": lambda: push(wider, 0.0, 0.0),
        }
    )


def test_a_logger_that_writes_into_the_log_changes_no_later_one(env):
    """As rsl_rl's does, which turns numbers into tensors of one element."""
    push(env, 0.0, 0.0)[-1]["log"].clear()
    assert push(env, 0.0, 0.0)[-1]["log"]


def test_without_terms_the_reward_is_zero():
    _, reward, *_ = push(make_env(2), 0.0, 0.0)
    assert reward.tolist() == [0.0, 0.0]


def test_a_resume_keeps_a_curriculums_weights_and_takes_others_from_the_configuration():
    before, after, again = (
        make_env(1, rewards=terms(alive=alive(1.0), also=alive(weight)))
        for weight in (2.0, 4.0, 4.0)
    )
    before.reward_manager.set_weight("alive", 0.5)
    before.reward_manager.set_weight("also", 2.0)  # no change
    again.reward_manager.set_weight("also", 9.0)
    for saved, env in ((before, after), (after, again)):
        env.set_state(saved.state())
        assert env.reward_manager.get_weight("alive") == 0.5
        assert env.reward_manager.get_weight("also") == 4.0


def test_a_resume_takes_over_the_terms_that_are_left_and_begins_new_ones():
    before = make_env(2, rewards=terms(gone=alive(1.0), alive=alive(2.0)))
    before.reward_manager.set_weight("gone", 0.5)
    push(before, 0.0, 0.0)
    after = make_env(2, rewards=terms(new=alive(8.0), alive=alive(2.0)))
    after.set_state(before.state())
    push(after, 0.0, 0.0)
    sums = {name: row.tolist() for name, row in after.reward_manager.episode_sums.items()}
    assert sums == {"new": pytest.approx([0.8] * 2), "alive": pytest.approx([0.4] * 2)}
