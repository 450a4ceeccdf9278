"""Compiled steps, ``env.graph=compiled``: they equal uncompiled ones, on each backend."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import _inductor  # private: torch's compiler is called so

from envlab import registry
from envlab.envs import (
    DirectEnv,
    DirectEnvCfg,
    SceneCfg,
    SimulationCfg,
    VectorEnv,
    mdp,
    vector_env,
)
from envlab.envs.managers import CurriculumTermCfg
from envlab.envs.terms import reward
from envlab.errors import ConfigurationError, SimulationError
from envlab.sim import compiled as compiler
from envlab.sim import host
from envlab.sim.recordable import RepeatedOperations
from tests.envs.managers import test_curriculum
from tests.envs.sliders import CTRL_PUSH, DT, MODEL, PUSH, make_env, rank, terms
from tests.tasks.rollouts import assert_equal, draw_actions, make_brief, record

SHORT = [
    ("Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0", "analytic"),
    ("Isaac-Cartpole-v0", "analytic"),
    ("Isaac-Cart-Double-Pendulum-Direct-v0", "mujoco"),
    ("Isaac-Lift-Cube-Franka-v0", "mujoco"),
]
LONG = [
    *(("Isaac-Quadcopter-Direct-v0", "analytic"), ("Isaac-Ant-Direct-v0", "mujoco")),
    ("Isaac-Repose-Cube-Allegro-v0", "mujoco"),
    ("Isaac-Velocity-Rough-Unitree-Go2-v0", "mujoco"),
    ("Mjlab-Velocity-Flat-Unitree-G1", "mujoco"),
]
TASKS = [*SHORT, *(pytest.param(case, marks=pytest.mark.long) for case in LONG)]


@pytest.fixture(params=TASKS)
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
    monkeypatch.setattr(host, "HOST", {"cpu"})
    with monkeypatch.context() as patched:
        change_cfg(patched, lambda cfg: setattr(cfg, "graph", "compiled"))
        return make_brief(task, **kwargs)


def test_a_compiled_step_equals_an_uncompiled_one(task, monkeypatch):
    """From the first step on, also after a restored state, whose future is the same bit by bit."""
    made = []
    monkeypatch.setattr(_inductor, "compile", lambda module, *rest: made.append(1) or module)
    plain = make_brief(task, seed=5)
    actions = draw_actions(plain, 12)
    expected = record(plain, actions)
    env = compiled(task, monkeypatch, seed=5)
    assert_equal(record(env, actions), expected)
    assert made
    for one in (plain, env):
        one.reset(seed=7)
        record(one, actions[:3])
    restored = compiled(task, monkeypatch, seed=1)
    restored.set_state(env.state())
    for action in actions:
        *_, expected_info = plain.step(action)
        for *_, info in (env.step(action), restored.step(action)):
            assert info["num_ended"] == expected_info["num_ended"]
            assert info.keys() == expected_info.keys()
            if info["num_ended"]:
                for name, value in expected_info["log"].items():
                    assert float(info["log"][name]) == pytest.approx(float(value), rel=1e-4)
    assert_equal(record(restored, actions), record(env, actions))


CARTPOLE = pytest.mark.parametrize("task", [("Isaac-Cartpole-v0", "mujoco")], indirect=True)


@CARTPOLE
def test_a_missing_compiler_is_reported(task, monkeypatch):
    def broken(*args: Any) -> None:
        raise RuntimeError("No working C++ compiler found.\nlong story")

    monkeypatch.setattr(_inductor, "compile", broken)
    env = compiled(task, monkeypatch)
    words = r"cannot compile here: No working C\+\+ compiler.* Set env\.graph=off"
    with pytest.raises(SimulationError, match=words):
        env.step(torch.zeros_like(env.actions))


@CARTPOLE
def test_a_folder_for_compiled_code_that_cannot_be_made_is_refused(task, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigurationError, match=r"cannot be made.*Set TORCHINDUCTOR_CACHE_DIR"):
        compiled(task, monkeypatch)


@pytest.mark.long
def test_the_compilers_own_step_is_close(task, monkeypatch):
    plain = make_brief(task, seed=5)
    actions = draw_actions(plain, 12)
    expected = record(plain, actions)
    found = record(compiled(task, monkeypatch, seed=5), actions)
    for name, values in expected.items():
        assert torch.allclose(found[name].float(), values.float(), atol=1e-4), name


@pytest.fixture
def cuda_graphs(monkeypatch: pytest.MonkeyPatch) -> list[RepeatedOperations]:
    """Leave a GPU's graphs uncompiled, and return those that stand in for CUDA's, as made."""
    made = []

    def new_graph() -> RepeatedOperations:
        made.append(RepeatedOperations())
        return made[-1]

    monkeypatch.setattr(_inductor, "compile", lambda module, *rest: module)
    monkeypatch.setattr(compiler, "cuda_graphs", lambda: new_graph)
    return made


def test_a_gpu_records_what_is_launched_and_runs_it_once(cuda_graphs):
    count = torch.zeros(3)
    graph = compiler.compiled_graphs(torch.device("cuda"))()()
    with torch.no_grad(), graph:
        count.add_(1.0)
        double = count * 2.0
    for number in (1.0, 2.0, 3.0):
        assert (count.tolist(), double.tolist()) == ([number] * 3, [2.0 * number] * 3)
        graph.replay()
    assert len(cuda_graphs) == 1


@CARTPOLE
def test_compiled_steps_that_a_gpu_records_equal_uncompiled_ones(task, cuda_graphs, monkeypatch):
    plain = make_brief(task, seed=5)
    actions = draw_actions(plain, 12)
    expected = record(plain, actions)
    graphs = compiler.compiled_graphs(torch.device("cuda"))
    monkeypatch.setattr(vector_env, "compiled_graphs", lambda device: graphs)
    assert_equal(record(compiled(task, monkeypatch, seed=5), actions), expected)
    assert len(cuda_graphs) == 3  # before physics, after it, and after the reset


class Pushed(DirectEnv):
    """A slider that is pushed by actions and rewarded for its velocity."""

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self.force = actions.clone()

    def _apply_action(self) -> None:
        self.sim.ctrl[:, CTRL_PUSH] = self.force[:, 0]

    def _get_observations(self) -> dict[str, torch.Tensor]:
        return {"policy": self.sim.data.qvel[:, PUSH : PUSH + 1]}

    def _get_rewards(self) -> torch.Tensor:
        return self.sim.data.qvel[:, PUSH].clone()

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        late = self.episode_length_buf >= self.max_episode_length
        return torch.zeros_like(late), late


class Remembers(Pushed):
    """Sums up actions in place, without declaring the sum in ``STATE``."""

    def _setup(self) -> None:
        self.total = torch.zeros(self.num_envs)

    def _get_rewards(self) -> torch.Tensor:
        return self.total.add_(self.actions[:, 0]).clone()


class AppliesWrenches(Pushed):
    def _apply_action(self) -> None:
        force = self.force.unsqueeze(1).expand(-1, 1, 3)
        self.sim.apply_wrench([1], force, torch.zeros_like(force))


class Draws(Pushed):
    """Draws from torch's own generator, of which trials must leave no trace."""

    def _get_rewards(self) -> torch.Tensor:
        return super()._get_rewards() + torch.rand(self.num_envs)


class Counts(Pushed):
    def _get_rewards(self) -> torch.Tensor:
        return super()._get_rewards() * self.common_step_counter


class RemembersActionsByName(Pushed):
    last = torch.zeros(4, 1)

    def _get_rewards(self) -> torch.Tensor:
        change, self.last = (self.actions - self.last)[:, 0], self.actions
        return change


class ViewsBits(Pushed):
    def _setup(self) -> None:
        self.total = torch.zeros(self.num_envs)
        self.bits = self.total.view(torch.int32)

    def _get_rewards(self) -> torch.Tensor:
        self.total.copy_(super()._get_rewards())
        return (self.bits & 1).float()


def direct(task: type[Pushed], *, is_compiled: bool) -> Pushed:
    sim, scene = SimulationCfg(dt=DT), SceneCfg(num_envs=4, model=MODEL)
    spaces = {"action_space": 1, "observation_space": 1}
    graph = "compiled" if is_compiled else "off"
    cfg = DirectEnvCfg(sim=sim, scene=scene, graph=graph, episode_length_s=5 * DT, **spaces)
    return task(cfg, context=rank(0, 1), seed=3)


def rewards_of(env: Pushed, mode: Any = torch.no_grad) -> torch.Tensor:
    """Return the rewards of 12 steps, two episodes."""
    actions = torch.rand(12, 4, 1, generator=torch.Generator().manual_seed(1))
    with mode():
        return torch.stack([env.step(action)[1] for action in actions])


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run recordings as they are, uncompiled."""
    monkeypatch.setattr(_inductor, "compile", lambda module, *rest: module)
    monkeypatch.setattr(host, "HOST", {"cpu"})


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_trials_leave_no_trace(mode):
    for kind in (Remembers, AppliesWrenches, Draws):
        pair = [direct(kind, is_compiled=is_compiled) for is_compiled in (False, True)]
        for _ in range(2):
            found = []
            for env in pair:
                torch.manual_seed(0)
                found.append(rewards_of(env, mode))
                env.reset(seed=3)
            assert found[0].any()
            assert torch.equal(*found), kind


@pytest.mark.usefixtures("uncompiled")
def test_changes_of_a_curriculum_are_recorded_anew():
    env, other = (test_curriculum.staged(graph="compiled") for _ in range(2))
    assert test_curriculum.rewards_of(env, 3) == pytest.approx([1, 1, 3])
    other.set_state(env.state())
    for one in (env, other):
        assert test_curriculum.rewards_of(one, 5) == pytest.approx([3, 6, 6, 25, 25])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_step_that_cannot_be_repeated_is_named(mode):
    """tests/sim/test_recording.py has other reasons."""
    table = {
        Counts: "does something else in each step (aten::mul)",
        RemembersActionsByName: "must be written in place",
        ViewsBits: "memory of torch.float32 is read as torch.int32",
    }
    for kind, words in table.items():
        with pytest.raises(SimulationError, match=re.escape(words)) as error:
            rewards_of(direct(kind, is_compiled=True), mode)
        assert "env.graph=off" in str(error.value), kind


@pytest.mark.usefixtures("uncompiled")
def test_curricula_find_the_rewards_of_their_step():
    seen: dict[bool, list[float]] = {}
    for is_compiled in (False, True):
        means = seen[is_compiled] = []

        def note(env, means=means, *, mask):
            means.append(float(env.reward_buf.mean()))

        env = make_env(
            graph="compiled" if is_compiled else "off",
            curriculum=terms(note=CurriculumTermCfg(func=note)),
            rewards=terms(speed=reward(mdp.joint_vel_l1, 1.0)),
        )
        for number in range(6):
            env.step(torch.full_like(env.actions, 1.0 + number))
    assert seen[True][-5:] == seen[False][-5:]
    assert len(set(seen[True][-5:])) == 5


@pytest.mark.usefixtures("uncompiled")
def test_environments_in_other_threads_are_left_alone():
    expected = rewards_of(direct(Pushed, is_compiled=False))

    def found(is_compiled: bool) -> list[torch.Tensor]:
        return [rewards_of(direct(Pushed, is_compiled=is_compiled)) for _ in range(10)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        with ThreadPoolExecutor(2) as pool:
            results = [one for some in pool.map(found, (False, True)) for one in some]
    finally:
        sys.setswitchinterval(interval)
    assert all(torch.equal(one, expected) for one in results)
