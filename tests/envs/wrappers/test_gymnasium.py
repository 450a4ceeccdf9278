"""The numpy ids: Gymnasium's own check, wrappers and conventions on envlab's tasks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector
from torch import nn

from envlab.envs.wrappers.gymnasium import NumpyEnv, NumpyVectorEnv
from envlab.errors import ConfigurationError
from envlab.registry import discover, get_task, load_env_cfg
from envlab.sim.opengl import provide_opengl
from tests.refusals import check_refusals
from tests.scripts.of_scripts import load

discover()

CARTPOLE = "numpy/Isaac-Cartpole-v0"
SHOWCASE = "numpy/Isaac-Cartpole-Showcase-Box-{}-Direct-v0"
STEPS = 5
clients = load("documentation/clients")


def make(num_envs: int = 3, task: str = "Isaac-Cartpole-v0", **kwargs: Any) -> Any:
    """Return a batch with episodes of :data:`STEPS` steps."""
    cfg = load_env_cfg(get_task(task))
    cfg.episode_length_s = STEPS * cfg.step_dt
    kwargs = {"device": "cpu", "seed": 1, **kwargs}
    return gymnasium.make_vec(f"numpy/{task}", num_envs=num_envs, cfg=cfg, **kwargs)


def idle(env: Any) -> np.ndarray:
    return np.zeros(env.action_space.shape, np.float32)


@pytest.mark.parametrize(
    "task",
    [
        *(CARTPOLE, "numpy/Isaac-Ant-Direct-v0", "numpy/Isaac-Cart-Double-Pendulum-Direct-v0"),
        *(SHOWCASE.format(kind) for kind in ("Discrete", "MultiDiscrete")),
    ],
)
@pytest.mark.filterwarnings("ignore:.*(space m|symmetric and normalized|have a spec)")
def test_its_own_check_passes(task: str):
    check_env(gymnasium.make(task).unwrapped)


@pytest.mark.parametrize("name", sorted(set(vector.__all__) - clients.NOT_FOR_NUMPY))
@pytest.mark.filterwarnings("ignore")
def test_gymnasiums_vector_wrappers_step(name: str, monkeypatch: pytest.MonkeyPatch):
    needs = {"RecordVideo": "moviepy", **dict.fromkeys(clients.TO_TORCH, "array_api_compat")}
    if name in clients.FOR_PICTURES:
        pytest.skip("needs images in bytes, which no task of the core has: run clients.py")
    if name in needs and importlib.util.find_spec(needs[name]) is None:
        pytest.skip(f"needs {needs[name]}: pip install {needs[name]}")
    if name in clients.RENDER:
        try:
            provide_opengl()
        except ConfigurationError as error:
            pytest.skip(f"no picture can be drawn here: {error}")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    clients.try_wrapper(name, num_steps=12)


def test_an_id_needs_neither_an_import_nor_a_keyword():
    script = """
import gymnasium
try:
    gymnasium.make("numpy/Isaac-Cartpole-v0")
except gymnasium.error.NamespaceNotFound as error:
    assert "Namespace numpy not found" in str(error)
else:
    raise AssertionError("without the prefix, nothing has registered the tasks")
envs = gymnasium.make_vec("envlab_tasks:numpy/Isaac-Cartpole-v0", num_envs=4)
obs, _ = envs.reset(seed=1)
obs, rewards, terminated, truncated, info = envs.step(envs.action_space.sample())
assert obs.shape == (4, 4) and rewards.shape == (4,) and info == {}, (obs, rewards, info)
assert envs.single_action_space == gymnasium.spaces.Box(-1, 1, (1,)), envs.single_action_space
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_a_step_is_that_of_the_torch_id(mode: str):
    env = make(autoreset_mode=mode)
    cfg = env.unwrapped.env.cfg
    task = gymnasium.make("Isaac-Cartpole-v0", cfg=cfg, num_envs=3, device="cpu").unwrapped
    ours, theirs = env.reset(seed=7)[0], task.reset(seed=7)[0]["policy"]
    for step in range(1, STEPS + 1):
        assert np.array_equal(ours, theirs.numpy())
        actions = np.random.default_rng(step).uniform(-1, 1, (3, 1)).astype(np.float32)
        ours, rewards, *flags, _ = env.step(actions)
        obs, reward, *ends, info = task.step(actions)
        assert np.array_equal(rewards, reward.numpy())
        assert all(np.array_equal(a, b.numpy()) for a, b in zip(flags, ends, strict=True))
        is_last = step == STEPS
        theirs = (info["final_obs"] if is_last and mode == "NextStep" else obs)["policy"]
    assert flags[1].all()
    assert np.array_equal(ours, theirs.numpy())


def test_in_the_same_step_infos_of_ended_episodes_are_as_gymnasiums():
    env = make(autoreset_mode=AutoresetMode.SAME_STEP)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    env.reset(seed=1)
    env.unwrapped.env.episode_length_buf = torch.tensor([0, STEPS - 1, 0])
    obs, rewards, _, truncated, info = env.step(idle(env))
    assert truncated.tolist() == [False, True, False]
    assert rewards.dtype == np.float64
    assert info.keys() == {"final_obs", "_final_obs", "final_info", "_final_info"}
    final = info["final_obs"]
    assert [type(one) for one in final] == [type(None), np.ndarray, type(None)]
    assert final[1].shape == (4,)
    assert not np.array_equal(final[1], obs[1])
    log = info["final_info"]["log"]
    assert log["Episode_Termination/time_out"].tolist() == [0.0, 1.0, 0.0]
    for mask in (info["_final_obs"], info["_final_info"], log["_Episode_Termination/time_out"]):
        assert mask.tolist() == [False, True, False]
    assert env.unwrapped.log["Episode_Termination/time_out"] == 1.0


def test_in_the_next_step_an_ended_environment_begins_and_the_others_go_on():
    env = make()
    inner = env.unwrapped.env
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    env.reset(seed=1)
    inner.episode_length_buf = torch.tensor([0, STEPS - 1, 0])
    last, _, _, truncated, info = env.step(idle(env))
    assert truncated.tolist() == [False, True, False]
    assert info["_log"].tolist() == [False, True, False]
    # An episode that would end at once: the step is its environment's reset all the same.
    inner.episode_length_buf = torch.tensor([1, STEPS - 1, 1])
    first, rewards, terminated, truncated, info = env.step(idle(env))
    assert (terminated | truncated).tolist() == [False] * 3
    assert rewards[1] == 0.0
    assert rewards[0] != 0.0
    assert info == {}
    assert inner.episode_length_buf.tolist() == [2, 0, 2]
    assert np.array_equal(first[1], inner.obs_buf["policy"][1])
    assert not np.array_equal(first[1], last[1])
    env.step(idle(env))
    assert inner.episode_length_buf.tolist() == [3, 1, 3]


def test_success_is_told_of_the_episode_that_the_step_belongs_to():
    for mode in ("NextStep", "SameStep"):
        env = make(autoreset_mode=mode)
        task = env.unwrapped.env
        env.reset(seed=1)
        task.success = torch.tensor([0.2, 1.0, 0.7])
        assert env.step(idle(env))[4]["is_success"].tolist() == [False, True, True]
        task.episode_length_buf = torch.tensor([0, STEPS - 1, 0])
        info = env.step(idle(env))[4]
        of_ended = info if mode == "NextStep" else info["final_info"]
        assert of_ended["is_success"][1]
        assert of_ended["_is_success"][1]
        assert info["_is_success"].tolist() == [True, mode == "NextStep", True]
        info = env.step(idle(env))[4]
        assert info["_is_success"].tolist() == [True, mode == "SameStep", True]


def test_a_reset_of_some_leaves_the_others():
    env = make()
    env.reset(seed=1)
    env.unwrapped.env.episode_length_buf = torch.tensor([0, STEPS - 1, 0])
    before, *_ = env.step(idle(env))
    mask = np.array([True, True, False])
    after, _ = env.reset(options={"reset_mask": mask})
    assert (before != after).any(axis=1).tolist() == mask.tolist()
    _, rewards, *_ = env.step(idle(env))  # which is no reset of the one that ended
    assert (rewards != 0.0).all()
    assert env.unwrapped.env.episode_length_buf.tolist() == [1, 1, 2]


def test_arrays_are_the_callers():
    for task in ("Isaac-Cartpole-v0", "Isaac-Cartpole-Direct-v0", "Isaac-Ant-v0"):
        env = make(task=task, autoreset_mode="SameStep")
        actions = idle(env)
        env.reset(seed=1)
        kept = [env.step(actions) for _ in range(2)]
        copies = [[np.copy(values) for values in step[:4]] for step in kept]
        acted = env.unwrapped.env.actions.clone()
        actions[:] = 1.0
        assert torch.equal(env.unwrapped.env.actions, acted)
        env.step(actions)
        for step, copied in zip(kept, copies, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(step, copied, strict=False))


def test_an_action_of_one_is_the_declared_one():
    assert gymnasium.spec(CARTPOLE).kwargs["action_scale"] == 1.0
    assert gymnasium.spec("numpy/Mjlab-Tracking-Flat-Unitree-G1").kwargs["action_scale"] == 4.0
    env = make(action_scale=2.5)
    assert env.single_action_space == gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    env.step(np.array([[1.0], [-0.5], [2.0]]))  # float64, and beyond the bounds, too
    assert env.unwrapped.env.actions[:, 0].tolist() == [2.5, -1.25, 5.0]


def test_groups_are_one_box_or_a_dict_by_name():
    task = "Isaac-Repose-Cube-Shadow-OpenAI-FF-Direct-v0"
    for observe, kind in ((None, "Box"), ("critic", "Box"), (["critic", "policy"], "Dict")):
        env = make(2, task, observe=observe)
        assert type(env.single_observation_space).__name__ == kind
        obs, _ = env.reset(seed=1)
        assert env.observation_space.contains(obs)
        if kind == "Dict":
            assert list(obs) == ["critic", "policy"]


def test_several_agents_are_one_that_moves_them_all():
    env = make(2, "Isaac-Cart-Double-Pendulum-Direct-v0")
    assert env.single_action_space.shape == (2,)
    obs, _ = env.reset(seed=1)
    assert obs.shape == (2, 7)
    assert env.step(idle(env))[1].shape == (2,)


def test_a_batch_takes_a_seed_as_gymnasium_wants_it():
    """check_env looks at the generator that ``super().reset(seed=seed)`` makes."""
    task = gymnasium.make("Isaac-Cartpole-v0", num_envs=2, device="cpu").unwrapped
    for env in (task, make(2)):
        env.reset(seed=123)
        assert env.np_random_seed == 123
        first = env.np_random.bit_generator.state
        env.reset(seed=[123, 123])
        assert env.np_random.bit_generator.state == first
    first, again = (make().reset(seed=5)[0] for _ in range(2))
    assert np.array_equal(first, again)


def test_an_episode_ends_in_its_last_state_and_a_reset_returns_the_next_ones_first():
    env = gymnasium.make(CARTPOLE)
    env.reset(seed=1)
    task = env.unwrapped.env
    task.episode_length_buf = torch.tensor([task.max_episode_length - 1])
    last, _, terminated, truncated, info = env.step(np.zeros(1))
    assert (terminated, truncated) == (False, True)
    assert "Episode_Reward/alive" in info["log"]
    first, _ = env.reset()
    assert not np.array_equal(last, first)
    assert np.array_equal(first, task.obs_buf["policy"][0])
    assert task.episode_length_buf.tolist() == [0]
    assert env.step(np.zeros(1))[4] == {}


@pytest.mark.long
def test_gymnasiums_own_batches_of_single_environments_step():
    assert clients.gym_vectors() == "step"


def test_the_table_of_clients_is_that_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = tmp_path / "page.md"
    old = "| Gymnasium | 1.0 | an old check | passes |"
    stale = f"Before\n{clients.BEGIN}\n{old}\n{clients.END}\nAfter\n"
    page.write_text(stale)
    rows = [
        clients.Check("Gymnasium", "gymnasium", "one", lambda: "passes"),
        clients.Check("Gymnasium", "gymnasium", "two", lambda: [][0]),
        clients.Check("None", "no_such_package", "three", lambda: "passes"),
    ]
    monkeypatch.setattr(clients, "PAGE", page)
    monkeypatch.setattr(clients, "checks", lambda cleanrl: rows)
    assert clients.main(["--only", "one"]) == 0
    assert page.read_text() == stale
    assert clients.main([]) == 1
    written = page.read_text()
    assert written.startswith(f"Before\n{clients.BEGIN}")
    assert written.endswith(f"{clients.END}\nAfter\n")
    assert [line.split(" | ")[2:] for line in written.splitlines() if "Gymnasium |" in line] == [
        ["one", "passes |"],
        ["two", "fails: IndexError: list index out of range |"],
    ]
    assert old not in written
    assert "three" not in written


def test_what_cannot_be_had_is_refused():
    def vec(**kwargs: Any) -> None:
        gymnasium.make_vec(CARTPOLE, num_envs=2, device="cpu", **kwargs)

    def choice(**kwargs: Any) -> None:
        gymnasium.make(SHOWCASE.format("Discrete"), **kwargs)

    def batch() -> None:
        NumpyEnv(gymnasium.make("Isaac-Cartpole-v0", num_envs=2, device="cpu").unwrapped)

    check_refusals(
        lambda act, values: act(**values),
        [
            (vec, {"observe": "polcy"}, r"'polcy'\. Did you mean policy\? It has policy\.$"),
            (vec, {"observe": ["policy", "x"]}, r"no group of observations 'x'"),
            (vec, {"action_scale": None}, r"is None, but.*no bounds.*action_scale=1\.0"),
            (vec, {"action_scale": -1.0}, r"action_scale is -1\.0, but"),
            (vec, {"action_scale": float("inf")}, r"action_scale is inf, but"),
            (choice, {"action_scale": 2.0}, r"is 2\.0, but.*already have bounds.*Leave"),
            (vec, {"autoreset_mode": "Disabled"}, r"'Disabled', but.*NextStep, SameStep"),
            (vec, {"render_mode": "ansi"}, r"'ansi', but must be None or 'rgb_array'"),
            (batch, {}, r"batch of 2.*num_envs=1"),
        ],
        ConfigurationError,
    )
    with pytest.raises(TypeError, match="unexpected keyword argument 'frameskip'"):
        vec(frameskip=1)  # which TorchRL looks for


def test_a_batch_that_exists_has_a_numpy_face_too():
    task = gymnasium.make("Isaac-Cartpole-v0", num_envs=2, device="cpu").unwrapped
    env = NumpyVectorEnv(task, action_scale=1.0)
    assert env.env is task
    assert env.reset(seed=1)[0].shape == (2, 4)


def test_a_loop_like_cleanrls_learns_from_a_batch():
    """A loop of one's own on the torch id: tensors in, tensors out, time limits distinguished."""
    envs = gymnasium.make_vec("Isaac-Cartpole-v0", num_envs=16, device="cpu")
    torch.manual_seed(1)
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    before = policy[0].weight.clone()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    obs, _ = envs.reset(seed=1)
    ended = 0
    for _ in range(envs.unwrapped.max_episode_length + 1):  # so that some episode ends
        distribution = torch.distributions.Normal(policy(obs["policy"]), 1.0)
        actions = distribution.sample()
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        loss = -(distribution.log_prob(actions).squeeze(1) * rewards).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ended += infos["num_ended"]
        assert ("final_obs" in infos) == bool((terminated | truncated).any())
    assert ended > 0
    assert not torch.equal(policy[0].weight, before)
