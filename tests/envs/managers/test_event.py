"""Events happen when they are due: at start-up once, at resets, and on each environment's clock."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from envlab.envs import ManagerEnv
from envlab.envs.managers import EventTermCfg
from envlab.envs.terms import at_reset, at_startup
from tests.envs.refusals import assert_refused
from tests.envs.sliders import make_env, rank, terms


class Recorder:
    """An event that records the changed environments and the step."""

    __name__ = "recorder"

    def __init__(self) -> None:
        self.calls: list[tuple[int, list[int]]] = []

    def __call__(self, env, mask, stream) -> None:
        if mask.any():  # a GPU calls interval events in every step
            self.calls.append((env.common_step_counter, mask.nonzero()[:, 0].tolist()))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def run(env, steps: int) -> None:
    for _ in range(steps):
        env.step(torch.zeros(env.num_envs, 1))


def test_startup_events_happen_once_and_reset_events_to_what_is_reset():
    once, recorder = Recorder(), Recorder()
    env = make_env(3, events=terms(once=at_startup(once), fresh=at_reset(recorder)))
    env.episode_length_buf[:] = torch.tensor([8, 0, 7])
    run(env, 4)
    env.reset(options={"reset_mask": torch.tensor([False, True, False])})
    assert recorder.calls == [(0, [0, 1, 2]), (2, [0]), (3, [2]), (4, [1])]
    assert once.calls == [(0, [0, 1, 2])]


def kicked(
    recorder: Recorder, low: float, high: float, num_envs: int = 2, context=None, **fields: object
) -> ManagerEnv:
    """Return an environment with an event every ``low`` to ``high`` seconds."""
    event = EventTermCfg(func=recorder, mode="interval", interval_range_s=(low, high), **fields)
    return make_env(num_envs, events=terms(kick=event), episode_length_s=100.0, context=context)


def test_a_fixed_interval_is_kept_to_the_step():
    for every in (1, 3, 7):
        recorder = Recorder()
        run(kicked(recorder, 0.1 * every, 0.1 * every), 30)
        assert recorder.calls == [(step, [0, 1]) for step in range(every, 31, every)]


def test_a_resume_lets_an_event_begin_that_the_run_did_not_have(recorder):
    before = kicked(Recorder(), 0.5, 0.5)
    run(before, 3)
    kick = before.cfg.events.kick
    both = terms(kick=kick, new=replace(kick, func=recorder))
    after = make_env(2, events=both, episode_length_s=100.0)
    after.set_state(before.state())
    run(after, 5)
    assert [step for step, _ in recorder.calls] == [8]
    assert [step for step, _ in kick.func.calls] == [5]


def test_intervals_are_drawn_from_their_range_per_environment(recorder):
    run(kicked(recorder, 0.3, 0.7, num_envs=200), 7)
    assert {step for step, _ in recorder.calls} == {3, 4, 5, 6, 7}
    assert {index for _, ids in recorder.calls for index in ids} == set(range(200))


def test_a_reset_winds_up_the_clock_of_its_environments(recorder):
    env = kicked(recorder, 0.4, 0.4)
    run(env, 3)
    env.reset(options={"reset_mask": torch.tensor([True, False])})
    run(env, 6)
    assert recorder.calls == [(4, [1]), (7, [0]), (8, [1])]


def test_a_global_clock_calls_all_at_once_and_no_reset_winds_it_up():
    calls = []
    for number in range(2):  # the second of two ranks is called at the same steps
        recorder = Recorder()
        env = kicked(recorder, 0.3, 0.7, 3, rank(number, 2), is_global_time=True)
        run(env, 2)
        env.reset(options={"reset_mask": torch.arange(3) >= 2 * number})
        run(env, 40)
        calls.append(recorder.calls)
    assert calls[0] == calls[1]
    steps = [step for step, ids in calls[0] if ids == [0, 1, 2]]
    assert len(steps) == len(calls[0]) >= 5
    between = {after - before for before, after in pairwise([0, *steps])}
    assert len(between) > 1
    assert between <= {3, 4, 5, 6, 7}


def test_a_seed_repeats_the_times_of_a_global_clock(recorder):
    env = kicked(recorder, 0.3, 0.7, is_global_time=True)
    found = []
    for _ in range(2):
        recorder.calls.clear()
        env.reset(seed=5)
        start = env.common_step_counter
        run(env, 23)
        found.append([step - start for step, _ in recorder.calls])
    assert found[0] == found[1]
    assert len(found[0]) >= 3


def test_only_interval_events_have_an_interval(recorder):
    def made(**fields: object) -> object:
        return make_env(1, events=terms(kick=EventTermCfg(func=recorder, **fields)))

    assert_refused(
        {
            r"env\.events\.kick has mode": lambda: made(mode="interval", interval_range_s=None),
            r"events\.kick has mode": lambda: made(mode="reset", interval_range_s=(1.0, 2.0)),
        }
    )
