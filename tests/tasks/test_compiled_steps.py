"""Steps that are compiled, ``env.sim.compile=true``: they do what others do, on each backend."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import _inductor

from envlab import registry
from envlab.envs import VectorEnv
from envlab.errors import ConfigurationError, SimulationError
from envlab.sim import host
from tests.tasks.test_every_task import assert_equal, draw_actions, make_brief, record

TASKS = [
    ("Isaac-Cartpole-v0", "analytic"),
    ("Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0", "analytic"),
    ("Isaac-Quadcopter-Direct-v0", "analytic"),
    ("Isaac-Cartpole-v0", "mujoco"),
    ("Isaac-Ant-Direct-v0", "mujoco"),
    ("Isaac-Cart-Double-Pendulum-Direct-v0", "mujoco"),
    ("Isaac-Lift-Cube-Franka-v0", "mujoco"),
    ("Isaac-Repose-Cube-Allegro-v0", "mujoco"),
    ("Isaac-Velocity-Rough-Unitree-Go2-v0", "mujoco"),
]


@pytest.fixture(params=TASKS, ids="-".join)
def task(request, monkeypatch) -> registry.Task:
    name, backend = request.param
    change_cfg(monkeypatch, lambda cfg: setattr(cfg.sim, "backend", backend))
    return registry.get_task(name)


def change_cfg(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Have configurations changed when they are loaded."""
    load = registry.load_env_cfg

    def load_changed(task: registry.Task):
        cfg = load(task)
        change(cfg)
        return cfg

    monkeypatch.setattr(registry, "load_env_cfg", load_changed)


def compiled(task: registry.Task, monkeypatch: pytest.MonkeyPatch, **kwargs: Any) -> VectorEnv:
    """Return an environment whose steps are compiled."""
    monkeypatch.setattr(host, "HOST", {"cpu"})
    with monkeypatch.context() as patched:
        change_cfg(patched, lambda cfg: setattr(cfg.sim, "compile", True))
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
    assert made
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
                log, expected_log = (
                    {name: float(value) for name, value in one["log"].items()}
                    for one in (info, expected_info)
                )
                assert log == pytest.approx(expected_log, rel=1e-4)
    assert_equal(record(restored, actions), record(env, actions))


CARTPOLE = pytest.mark.parametrize("task", [("Isaac-Cartpole-v0", "mujoco")], indirect=True)


@CARTPOLE
def test_without_a_compiler_it_says_so(task, monkeypatch):
    def broken(*args: Any) -> None:
        raise RuntimeError("No working C++ compiler found.\nlong story")

    monkeypatch.setattr(_inductor, "compile", broken)
    env = compiled(task, monkeypatch)
    words = r"cannot compile here: No working C\+\+ compiler.* Set env\.sim\.compile=false"
    with pytest.raises(SimulationError, match=words):
        env.step(torch.zeros_like(env.actions))


@CARTPOLE
def test_a_folder_for_compiled_code_that_cannot_be_made_is_refused(task, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigurationError, match=r"cannot be made.*Set TORCHINDUCTOR_CACHE_DIR"):
        compiled(task, monkeypatch)


@pytest.mark.long
def test_what_a_compiler_makes_of_a_step_is_close_to_it(task, monkeypatch):
    plain = make_brief(task, seed=5)
    actions = draw_actions(plain, 12)
    expected = record(plain, actions)
    found = record(compiled(task, monkeypatch, seed=5), actions)
    for name, values in expected.items():
        assert torch.allclose(found[name].float(), values.float(), atol=1e-4), name
