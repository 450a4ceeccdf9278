"""The contract of every task, for those that the ``analytic`` backend can simulate."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import _inductor

from envlab import registry
from envlab.envs import VectorEnv
from envlab.errors import ConfigurationError
from envlab.sim import host
from tests.tasks.test_every_task import (  # noqa: F401  (collected here with another backend)
    assert_equal,
    draw_actions,
    make_brief,
    record,
    test_a_restored_state_has_the_same_future,
    test_a_seeded_reset_repeats_the_run,
    test_an_environment_that_is_not_finite_is_reset_alone,
    test_environments_start_differently_on_and_across_ranks,
    test_observations_and_actions_are_in_their_spaces,
    test_runs_are_bit_identical_and_seeds_matter,
    test_two_ranks_simulate_what_one_process_would,
)

TASKS = [
    "Isaac-Cartpole-v0",
    "Isaac-Cartpole-Direct-v0",
    "Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0",
    "Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0",
    "Isaac-Cart-Double-Pendulum-Direct-v0",
    "Isaac-Quadcopter-Direct-v0",
]


@pytest.fixture(params=TASKS)
def task(request, monkeypatch) -> registry.Task:
    load = registry.load_env_cfg

    def load_analytic(task: registry.Task):
        cfg = load(task)
        cfg.sim.backend = "analytic"
        return cfg

    monkeypatch.setattr(registry, "load_env_cfg", load_analytic)
    return registry.get_task(request.param)


# Compiled steps -----------------------------------------------------------------------------------


def compiled(task: registry.Task, monkeypatch: pytest.MonkeyPatch, **kwargs: Any) -> VectorEnv:
    """Return an environment whose steps are compiled as ``env.sim.compile=true`` has them."""
    monkeypatch.setattr(host, "HOST", {"cpu"})
    load = registry.load_env_cfg

    def load_compiled(task: registry.Task):
        cfg = load(task)
        cfg.sim.compile = True
        return cfg

    with monkeypatch.context() as patched:
        patched.setattr(registry, "load_env_cfg", load_compiled)
        return make_brief(task, **kwargs)


def test_a_compiled_step_does_what_another_does(task, monkeypatch):
    """From the first step on, also after a restored state, whose future is the same bit by bit."""
    made = []
    monkeypatch.setattr(_inductor, "compile", lambda module, *rest: made.append(1) or module)
    plain = make_brief(task, seed=5)
    actions = draw_actions(plain, 12)
    expected = record(plain, actions)
    env = compiled(task, monkeypatch, seed=5)
    assert_equal(record(env, actions), expected)
    assert len(made) == 1
    plain.reset(seed=7)
    env.reset(seed=7)
    record(plain, actions[:3])
    record(env, actions[:3])
    restored = compiled(task, monkeypatch, seed=1)
    restored.set_state(env.state())
    for action in actions:
        *_, expected_info = plain.step(action)
        for *_, info in (env.step(action), restored.step(action)):
            assert info["num_ended"] == expected_info["num_ended"]
            assert info.keys() == expected_info.keys()
            if info["num_ended"]:
                log = {name: float(value) for name, value in info["log"].items()}
                assert log == pytest.approx(expected_info["log"], rel=1e-4)
    assert_equal(record(restored, actions), record(env, actions))


CARTPOLE = pytest.mark.parametrize("task", ["Isaac-Cartpole-v0"], indirect=True)


@CARTPOLE
def test_without_a_compiler_it_says_so_and_goes_on(task, monkeypatch, caplog):
    def broken(*args: Any) -> None:
        raise RuntimeError("No working C++ compiler found.\nlong story")

    monkeypatch.setattr(_inductor, "compile", broken)
    plain = make_brief(task, seed=5)
    actions = draw_actions(plain, 7)
    expected = record(plain, actions)
    env = compiled(task, monkeypatch, seed=5)
    with caplog.at_level(logging.WARNING):
        assert_equal(record(env, actions), expected)
    (line,) = caplog.messages
    assert "env.sim.compile=true has no effect" in line
    assert "No working C++ compiler found" in line


@CARTPOLE
def test_a_folder_for_compiled_code_that_cannot_be_made_is_refused(task, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigurationError, match=r"cannot be made.*Set TORCHINDUCTOR_CACHE_DIR"):
        compiled(task, monkeypatch)


@CARTPOLE
@pytest.mark.long
def test_what_a_compiler_makes_of_a_step_is_close_to_it(task, monkeypatch):
    plain = make_brief(task, seed=5)
    actions = draw_actions(plain, 12)
    expected = record(plain, actions)
    found = record(compiled(task, monkeypatch, seed=5), actions)
    for name, values in expected.items():
        assert torch.allclose(found[name].float(), values.float(), atol=1e-4), name
