"""A run of one process resumes on two, with each environment and memory where it was; and back."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.distributed.audit import flatten
from envlab.distributed.context import DistributedContext
from envlab.state import Share, deal, restore, save
from tests.golden import libraries
from tests.small_runs import env_of, train_in
from tests.trained import checkpoint_of, metrics_of, only_run

WORKER = Path(__file__).with_name("worker_other_processes.py")
CPU = torch.device("cpu")
NUM_ENVS = 8
CARTPOLE = (
    *("--task=Isaac-Cartpole-v0", f"--num_envs={NUM_ENVS}", "--seed=7", "--headless"),
    *("--device=cpu", "env.episode_length_s=0.2"),
)
SMALL = ("agent.actor.hidden_dims=[8]", "agent.critic.hidden_dims=[8]")
LSTM = tuple(
    f"agent.{name}.{word}"
    for name in ("actor", "critic")
    for word in ("class_name=RNNModel", "rnn_type=lstm", "rnn_hidden_dim=8", "rnn_num_layers=1")
)
WAYS: dict[str, tuple[str, ...]] = {
    "rsl_rl": ("rsl_rl", *CARTPOLE, *SMALL, "agent.overlap=true"),
    "rsl_rl_lstm": ("rsl_rl", *CARTPOLE, *SMALL, *LSTM),
    "rl_games": (
        *("rl_games", *CARTPOLE, "agent.params.config.minibatch_size=64"),
        "+agent.params.network.rnn={name: lstm, units: 8, layers: 1}",
    ),
    "skrl": ("skrl", *CARTPOLE),
    "skrl_sac": (
        *("skrl", "--algorithm=sac", *CARTPOLE, "agent.num_steps_per_env=8"),
        *("agent.memory.memory_size=64", "agent.agent.batch_size=16"),
    ),
    "fast_sac": (
        *("fast_sac", *CARTPOLE, *SMALL, "agent.overlap=true", "agent.algorithm.name=td3"),
        *("agent.replay.size=1024", "agent.algorithm.batch_size=32", "agent.num_steps_per_env=8"),
    ),
    "ddppo": (
        *("ddppo", *CARTPOLE, "agent.num_steps_per_env=16", "agent.precision=float32"),
        *("agent.model.vector_dims=[8]", "agent.model.hidden_dim=8"),
    ),
}
"""By name, a library and the words of a run that resets environments and has memories."""
BY_NIGHT = ("rl_games", "skrl", "ddppo")
"""They have the same kinds of states as the others: environments, memories and counters."""
SAID = (
    r"Resuming from \S+ \(iteration 2\) on 2 processes of 4 environments instead of 1 of 8: "
    "environments, memories and counters continue; draws of actions and the order of minibatches "
    "differ."
)


@pytest.fixture(scope="module")
def names(pytestconfig: pytest.Config) -> list[str]:
    is_all = pytestconfig.getoption("--all")
    return [name for name in WAYS if is_all or name not in BY_NIGHT]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> Path:
    """Where each way trained two iterations on one process, in ``one``, and two more on two."""
    folder = tmp_path_factory.mktemp("other")
    jobs = []
    for name in names:
        library, *words = WAYS[name]
        assert train_in(library, folder / f"{name}_one", *words, "--max_iterations=2") == 0
        (folder / f"{name}_two").mkdir()
        path = only_run(folder / f"{name}_one") / "checkpoints/model_2.pt"
        again = [word for word in words if not word.startswith("--num_envs")]
        again += ["--distributed", "--resume", f"--checkpoint={path}", "--max_iterations=4"]
        jobs.append((f"{name}_two", library, again))
    (folder / "output.txt").write_text(libraries.launch(folder, jobs, worker=WORKER))
    return folder


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in BY_NIGHT else []) for name in WAYS],
)
def test_a_run_goes_on_with_its_environments_on_other_processes(name: str, folder: Path):
    (saved,) = checkpoint_of(only_run(folder / f"{name}_one"), 2)["ranks"]
    del saved["generators"]
    two = [torch.load(folder / f"{name}_two/rank{rank}.pt") for rank in range(2)]
    check_dealt(saved, two)
    resumed = only_run(folder / f"{name}_two")
    assert [record["iteration"] for record in metrics_of(resumed)] == [3, 4]
    frames = [metrics_of(one)[-1]["frames"] for one in (only_run(folder / f"{name}_one"), resumed)]
    assert frames[1] == 2 * frames[0]


def check_dealt(saved: Any, ranks: list[Any]) -> None:
    """Require that ranks have the rows of what one process saved, or all the same."""
    whole, *parts = (flatten(one) for one in (saved, *ranks))
    assert len(whole) > 5
    for path, value in whole.items():
        if "generator" in path or ".info." in path:  # a thread's draws; logs of those that ended
            continue
        found = [part[path] for part in parts]
        if not isinstance(value, torch.Tensor):
            assert found == [value] * len(found), path
            continue
        if ".replay." in path:  # a row is a step of an environment
            value, *found = (
                one.unflatten(0, (-1, number))
                for one, number in ((value, NUM_ENVS), *((one, NUM_ENVS // 2) for one in found))
            )
        dims = [dim for dim, size in enumerate(found[0].shape) if size != value.shape[dim]]
        assert torch.equal(torch.cat(found, *dims) if dims else found[0], value), path


def test_each_launch_says_what_goes_on(folder: Path, names: list[str]):
    output = (folder / "output.txt").read_text()
    assert len(re.findall(SAID, output)) == len(names)
    sizes = "batch_size, 16 samples of all processes, is 8 on each of 2"
    assert sizes in output
    assert "[rank 1]" not in output


@pytest.mark.long
def test_two_processes_go_on_as_one_and_as_four(folder: Path, tmp_path: Path, capfd):
    """On one the total need not be given; on four, it is repeated as it was first typed."""
    run = only_run(folder / "rsl_rl_lstm_two")
    words = ["--resume", f"--checkpoint={run}/checkpoints/model_4.pt", "--max_iterations=5"]
    again = [word for word in WAYS["rsl_rl_lstm"][1:] if not word.startswith("--num_envs")]
    assert train_in("rsl_rl", tmp_path / "one", *again, *words) == 0
    assert "on 1 process of 8 environments instead of 2 of 4" in capfd.readouterr().err
    (tmp_path / "four").mkdir()
    jobs = [("four", "rsl_rl", [*WAYS["rsl_rl_lstm"][1:], "--distributed", *words])]
    libraries.launch(tmp_path, jobs, worker=WORKER, num_ranks=4)
    saved = checkpoint_of(run, 4)["ranks"]
    four = [torch.load(tmp_path / f"four/rank{rank}.pt") for rank in range(4)]
    for rank, one in enumerate(four):
        ids = slice(rank % 2 * 2, rank % 2 * 2 + 2)
        then = saved[rank // 2]
        assert torch.equal(one["env"]["episode_length"], then["env"]["episode_length"][ids])
        memory, before = (state["learner"]["memories"]["actor"][0] for state in (one, then))
        assert torch.equal(memory, before[:, ids])
        assert one["env"]["random"] == then["env"]["random"]


TASKS = ("Isaac-Cartpole-v0", "Isaac-Ant-v0", "Isaac-Velocity-Rough-Unitree-Go2-v0")


@pytest.mark.parametrize("task", TASKS)
def test_given_the_same_actions_the_steps_after_a_resume_are_the_same(task: str):
    """Also across resets, which each environment draws from its own stream.

    32 environments on each process: of fewer than a vector of the processor, torch adds up the
    terms of a reward in another order.
    """
    whole, half_size = env_of(task, 64), 32
    torch.manual_seed(0)
    actions = 4.0 * torch.randn(12, *whole.actions.shape)
    whole.episode_length_buf = whole.max_episode_length - torch.randint(4, 40, (64,))
    for action in actions[:3]:
        whole.step(action)
    halves = []
    for rank in range(2):
        context = dataclasses.replace(DistributedContext.single("cpu"), rank=rank, world_size=2)
        halves.append(env_of(task, half_size, context))
        dealt = deal(halves[-1], [save(whole)], Share(half_size * rank, half_size, 64))
        restore(halves[-1], dealt, CPU)
    num_ended = 0
    for action in actions[3:]:
        obs, *rest, info = whole.step(action)
        num_ended += int(info["num_ended"])
        for half, rows in zip(halves, (slice(0, 32), slice(32, 64)), strict=True):
            found, *others, _ = half.step(action[rows])
            assert all(torch.equal(found[group], obs[group][rows]) for group in obs)
            assert all(map(torch.equal, others, (one[rows] for one in rest)))
    assert num_ended > 0
    for env in (whole, *halves):
        env.close()
