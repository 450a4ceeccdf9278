"""Events happen when they are due: at start-up once, at resets, and on each environment's clock."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from envlab.envs import ManagerEnv, ManagerTermBase, SceneEntityCfg, mdp
from envlab.envs.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    MetricsTermCfg,
    SuccessTermCfg,
)
from envlab.envs.terms import at_reset, at_startup
from envlab.state import State
from tests.envs.promises import assert_keeps_promises
from tests.envs.refusals import assert_refused
from tests.envs.sliders import joint, make_cfg, make_env, rank, terms
from tests.envs.test_direct_env import PushCfg, PushEnv


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


def test_modes_that_are_misspelt_and_settings_of_other_modes_are_refused(recorder):
    def made(**fields: object) -> object:
        return make_env(1, events=terms(kick=EventTermCfg(func=recorder, **fields)))

    assert_refused(
        {
            r"env\.events\.kick has mode": lambda: made(mode="interval", interval_range_s=None),
            r"events\.kick has mode": lambda: made(mode="reset", interval_range_s=(1.0, 2.0)),
            "kick has mode 'resets', which .* Did you mean reset": lambda: made(mode="resets"),
            "which is for reset events alone": lambda: made(
                mode="step", min_step_count_between_reset=3
            ),
        }
    )


def test_a_global_clock_and_one_that_goes_on_are_left_alone_by_resets(recorder):
    env = kicked(recorder, 0.4, 0.4, resample_interval_on_reset=False)
    run(env, 3)
    env.reset(options={"reset_mask": torch.tensor([True, False])})
    run(env, 6)
    assert recorder.calls == [(4, [0, 1]), (8, [0, 1])]


def test_step_events_come_in_each_step_after_its_resets_and_own_modes_when_called():
    each, own, reset = Recorder(), Recorder(), Recorder()
    events = terms(
        each=EventTermCfg(func=each, mode="step"),
        own=EventTermCfg(func=own, mode="dusk"),
        reset=at_reset(reset),
    )
    env = make_env(2, events=events)
    run(env, 2)
    env.event_manager.apply("dusk", torch.tensor([False, True]))
    env.event_manager.apply("dusk")
    env.event_manager.apply("dawn")  # which no term has
    assert each.calls == [(1, [0, 1]), (2, [0, 1])]
    assert own.calls == [(2, [1]), (2, [0, 1])]
    assert env.event_manager.active_terms == {"step": ["each"], "dusk": ["own"], "reset": ["reset"]}


def test_reset_events_wait_for_their_least_number_of_steps():
    """As Isaac Lab's: each environment counts its own steps since the term was called."""
    recorder = Recorder()
    rare = EventTermCfg(func=recorder, mode="reset", min_step_count_between_reset=4)
    env = make_env(2, events=terms(rare=rare))
    only = torch.tensor([True, False])
    for _ in range(9):
        run(env, 1)
        env.reset(options={"reset_mask": only})
    assert recorder.calls == [(0, [0, 1]), (4, [0]), (8, [0])]
    env.reset()  # the other has its first since the start
    assert recorder.calls[3:] == [(9, [1])]
    env.reset(seed=3)
    assert recorder.calls[4:] == [(9, [0, 1])]


def lengthen(env, spec, mass: float) -> None:
    spec.body("push").geoms[0].mass = mass


def test_prestartup_events_edit_the_scene_before_it_is_compiled():
    event = EventTermCfg(func=lengthen, mode="prestartup", params={"mass": 5.0})
    env = make_env(1, events=terms(heavy=event))
    assert env.sim.model.body("push").mass == 5.0
    assert env.event_manager.active_terms == {}


def test_direct_tasks_have_all_events():
    calls = {mode: Recorder() for mode in ("startup", "reset", "interval", "step")}
    events = terms(
        heavy=EventTermCfg(func=lengthen, mode="prestartup", params={"mass": 5.0}),
        damping=at_reset(mdp.dr.joint_damping, ranges=(1.0, 2.0)),
        **{
            mode: EventTermCfg(
                func=recorder,
                mode=mode,
                interval_range_s=(0.3, 0.3) if mode == "interval" else None,
            )
            for mode, recorder in calls.items()
        },
    )
    cfg = PushCfg(events=events, observation_space=1, action_space=1)
    plain = make_cfg(2)
    cfg.sim, cfg.scene, cfg.episode_length_s = plain.sim, plain.scene, 100.0
    env = PushEnv(cfg, context=rank(0, 1), seed=0)
    env.episode_length_buf[1] = 10**9
    run(env, 3)
    assert env.sim.model.body("push").mass == 5.0
    assert env.sim.params.dof_damping.unique().numel() == 8
    assert calls["startup"].calls == [(0, [0, 1])]
    assert calls["step"].calls == [(step, [0, 1]) for step in (1, 2, 3)]
    assert calls["reset"].calls[0] == (0, [0, 1])
    assert calls["interval"].calls[0][0] == 3
    other = PushEnv(cfg, context=rank(0, 1), seed=9)
    other.set_state(env.state())
    assert torch.equal(other.sim.params.dof_damping, env.sim.params.dof_damping)


class Drift(ManagerTermBase):
    """An event that remembers how often an environment was called."""

    STATE = State(per_env=("calls",))

    def __init__(self, cfg: Any, env: Any) -> None:
        super().__init__(cfg, env)
        self.calls = torch.zeros(env.num_envs)

    def reset(self, mask: torch.Tensor) -> None:
        self.calls.masked_fill_(mask, 0.0)

    def __call__(
        self, env: Any, mask: torch.Tensor, stream: Any, size: float, unused: float = 0.0
    ) -> None:
        self.calls += mask
        qvel = env.sim.data.qvel + size * self.calls.unsqueeze(1) * stream.uniform(-1.0, 1.0, 4)
        env.sim.set_velocity(mask, qvel)


def number(env: Any, mask: torch.Tensor, value: float) -> float:
    return 0.5 * (env.common_step_counter // 5)


def speed(env: Any) -> torch.Tensor:
    return env.sim.data.qvel[:, 0].abs()


def test_events_curricula_and_metrics_keep_the_promises_of_every_task():
    push = SceneEntityCfg(body_names="push")
    impulse = {"force_range": (-3.0, 3.0), "torque_range": (0.0, 0.0), "asset_cfg": push}
    times = {"duration_s": (0.1, 0.3), "cooldown_s": (0.1, 0.4)}
    gravity = {"gravity_distribution_params": ([-1.0, 0.0, 0.0], [1.0, 0.0, 0.0])}
    events = terms(
        heavy=EventTermCfg(func=lengthen, mode="prestartup", params={"mass": 3.0}),
        inertia=at_startup(mdp.pseudo_inertia, alpha_range=(-0.2, 0.2), asset_cfg=push),
        pull=EventTermCfg(
            func=mdp.randomize_physics_scene_gravity,
            mode="reset",
            min_step_count_between_reset=6,
            params={"operation": "add", **gravity},
        ),
        damping=at_reset(mdp.dr.joint_damping, ranges=(0.1, 2.0), distribution="log_uniform"),
        armature=EventTermCfg(
            func=mdp.randomize_model_field,
            mode="interval",
            interval_range_s=(0.2, 0.5),
            resample_interval_on_reset=False,
            params={"field": "dof_armature", "ranges": (1.0, 0.2), "distribution": "normal"},
        ),
        bump=EventTermCfg(
            func=mdp.apply_body_impulse,
            mode="step",
            params={**impulse, **times, "body_point_offset": (0.0, 0.0, 0.1)},
        ),
        drift=EventTermCfg(func=Drift, mode="step", params={"size": 0.02}),
    )
    harder = CurriculumTermCfg(
        func=mdp.modify_term_cfg,
        params={"address": "events.drift.params.unused", "modify_fn": number},
    )
    level = CurriculumTermCfg(func=mdp.DifficultyScheduler, params={"pos_tol": None})
    metrics = terms(peak=MetricsTermCfg(func=speed, reduce="max"), mean=MetricsTermCfg(func=speed))
    cfg = make_cfg(
        8,
        events=events,
        curriculum=terms(harder=harder, level=level),
        metrics=metrics,
        success=SuccessTermCfg(func=moves, params={"asset_cfg": joint("push")}),
    )
    assert_keeps_promises(cfg)


def moves(env: Any, asset_cfg: Any) -> torch.Tensor:
    return (env.sim.data.qvel[:, asset_cfg.qvel_ids].abs() > 0.2).any(dim=1)
