"""Events happen when they are due: at start-up once, at resets, and on each environment's clock."""

from __future__ import annotations

import pytest
import torch

from envlab.envs.managers import EventTermCfg
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


def test_startup_events_happen_once_to_everyone(recorder):
    env = make_env(3, events=terms(once=EventTermCfg(func=recorder, mode="startup")))
    run(env, 12)
    env.reset(seed=1)
    assert recorder.calls == [(0, [0, 1, 2])]


def test_reset_events_happen_to_the_environments_that_are_reset(recorder):
    env = make_env(3, events=terms(fresh=EventTermCfg(func=recorder, mode="reset")))
    env.episode_length_buf[:] = torch.tensor([8, 0, 7])
    run(env, 4)
    env.reset(options={"reset_mask": torch.tensor([False, True, False])})
    assert recorder.calls == [(0, [0, 1, 2]), (2, [0]), (3, [2]), (4, [1])]


@pytest.mark.parametrize("interval", [0.1, 0.3, 0.7])
def test_a_fixed_interval_is_kept_to_the_step(recorder, interval):
    event = EventTermCfg(func=recorder, mode="interval", interval_range_s=(interval, interval))
    env = make_env(2, events=terms(kick=event), episode_length_s=100.0)
    run(env, 30)
    every = round(interval / 0.1)
    assert recorder.calls == [(step, [0, 1]) for step in range(every, 31, every)]


def test_every_environment_has_its_own_clock(recorder):
    event = EventTermCfg(func=recorder, mode="interval", interval_range_s=(0.5, 0.5))
    env = make_env(3, events=terms(kick=event), episode_length_s=100.0)
    env.event_manager.set_state({"kick": torch.tensor([0.1, 0.3, 0.4])})
    run(env, 9)
    assert recorder.calls == [(1, [0]), (3, [1]), (4, [2]), (6, [0]), (8, [1]), (9, [2])]


def test_a_resume_lets_an_event_begin_that_the_run_did_not_have(recorder):
    every = {"mode": "interval", "interval_range_s": (0.5, 0.5)}
    old = EventTermCfg(func=Recorder(), **every)
    before = make_env(2, events=terms(old=old), episode_length_s=100.0)
    run(before, 3)
    new = terms(old=old, kick=EventTermCfg(func=recorder, **every))
    after = make_env(2, events=new, episode_length_s=100.0)
    after.set_state(before.state())
    run(after, 5)
    assert [step for step, _ in recorder.calls] == [8]
    assert [step for step, _ in old.func.calls] == [5]


def test_intervals_are_drawn_from_their_range_per_environment(recorder):
    event = EventTermCfg(func=recorder, mode="interval", interval_range_s=(0.3, 0.7))
    env = make_env(200, events=terms(kick=event), episode_length_s=100.0)
    run(env, 7)
    assert {step for step, _ in recorder.calls} == {3, 4, 5, 6, 7}
    first = {}
    for step, ids in recorder.calls:
        for index in ids:
            first.setdefault(index, step)
    assert len(first) == 200


def test_a_reset_winds_the_clock_up(recorder):
    event = EventTermCfg(func=recorder, mode="interval", interval_range_s=(0.4, 0.4))
    env = make_env(2, events=terms(kick=event), episode_length_s=100.0)
    run(env, 3)
    env.reset(options={"reset_mask": torch.tensor([True, False])})
    run(env, 4)
    assert recorder.calls == [(4, [1]), (7, [0])]


def test_a_global_clock_calls_all_at_once_and_no_reset_winds_it_up(recorder):
    event = EventTermCfg(
        func=recorder, mode="interval", interval_range_s=(0.3, 0.7), is_global_time=True
    )
    env = make_env(3, events=terms(kick=event), episode_length_s=100.0)
    run(env, 2)
    env.reset(options={"reset_mask": torch.tensor([True, False, False])})
    run(env, 40)
    steps = [step for step, ids in recorder.calls if ids == [0, 1, 2]]
    assert len(steps) == len(recorder.calls) >= 5
    between = {after - before for before, after in zip([0, *steps], steps, strict=False)}
    assert len(between) > 1
    assert between <= {3, 4, 5, 6, 7}
    other = Recorder()  # the second of two ranks is called at the same steps
    event = EventTermCfg(
        func=other, mode="interval", interval_range_s=(0.3, 0.7), is_global_time=True
    )
    second = make_env(3, events=terms(kick=event), episode_length_s=100.0, context=rank(1, 2))
    run(second, 2)
    second.reset(options={"reset_mask": torch.tensor([False, True, True])})
    run(second, 40)
    assert [step for step, _ in other.calls] == steps


def test_a_seed_repeats_the_times_of_a_global_clock(recorder):
    event = EventTermCfg(
        func=recorder, mode="interval", interval_range_s=(0.3, 0.7), is_global_time=True
    )
    env = make_env(2, events=terms(kick=event), episode_length_s=100.0)
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
