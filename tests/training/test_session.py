"""Bad input to the real script gives one sentence and exit code 2, and writes nothing."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from envlab.cli import main
from envlab.distributed.checkpoint import FORMAT_VERSION, save_checkpoint
from envlab.registry import load_env_cfg
from envlab.training.session import choose_num_envs
from tests.distributed.test_checkpoint import Bomb
from tests.launcher import TRAIN, run, torchrun
from tests.trained import SMALL, session_of, train_in

CARTPOLE = ("--task=Isaac-Cartpole-v0", "--device=cpu", "--num_envs=4", "--max_iterations=1")

TORCHRUN = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
}


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one error sentence, which must be the whole output."""
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line]
    assert [line[:7] for line in lines] == ["error: "], captured.err
    assert captured.out == ""
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task=Isaac-Cartpol-v0"], r"'Isaac-Cartpol-v0'.*Isaac-Cartpole-v0"),
        ([*CARTPOLE, "env.scene.num_env=4"], "env.scene.num_env.*env.scene.num_envs"),
        ([*CARTPOLE, "agent.algorithm.gama=0.9"], "agent.algorithm.gama.*gamma"),
        ([*CARTPOLE, "agent.algorithm.gamma=high"], "agent.algorithm.gamma.*high"),
        ([*CARTPOLE, "env.decimation=2.5"], r"env.decimation.*2\.5"),
        ([*CARTPOLE, "--num_env=4"], "--num_env.*Did you mean --num_envs"),
        ([*CARTPOLE, "--max_iterations=x"], "(?i)invalid int value: 'x'"),
        ([*CARTPOLE, "word"], "'word' is neither a flag nor an override"),
        (["--num_envs=4"], "--task"),
        ([*CARTPOLE, "--distributed"], r"RANK.*torch\.distributed\.run.*--distributed"),
        ([*CARTPOLE, "--device=tpu"], "'tpu', but must be cpu, cuda"),
        ([*CARTPOLE, "--num_envs=0"], "--num_envs is 0, but must be greater than 0"),
        ([*CARTPOLE, "--num_envs=-3"], "--num_envs is -3"),
        ([*CARTPOLE, "--global_num_envs=8"], "--num_envs and --global_num_envs were both given"),
        ([*CARTPOLE, "--lr_scaling=cubic"], "(?i)invalid choice: 'cubic'.*linear"),
        (["--task=Isaac-Cartpole-v0", "--global_num_envs=8", "--lr_scaling=sqrt"], "no effect"),
        ([*CARTPOLE, "--resume"], "no run with a checkpoint.*Train first"),
        ([*CARTPOLE, "--checkpoint=x.pt"], "no run with a checkpoint"),
        ([*CARTPOLE, "--load_run=x"], "--load_run has no effect.*--resume"),
        ([*CARTPOLE, "--resume", "--checkpoint=./x.pt"], "There is no checkpoint .*x.pt"),
        ([*CARTPOLE, "--config=nowhere"], "nowhere is no run directory"),
        ([*CARTPOLE, "--resume", "-m", "agent.seed=1,2"], "--resume takes the newest run, .* -m"),
        ([*CARTPOLE, "--run_id="], "--run_id is empty"),
        ([*CARTPOLE, "--max_iterations=0"], "max_iterations is 0"),
        (["--task=Isaac-Cartpole-v0", "--max_frames=0", "--num_envs=4"], "--max_"),
        (
            [*CARTPOLE, "--max_frames=100"],
            "--max_frames: not allowed with argument --max_iterations",
        ),
        ([*CARTPOLE, "--logger=nope"], "--logger is 'nope', but must be tensorboard"),
        ([*CARTPOLE, "--agent=other"], "no agent configuration 'other'.*rsl_rl"),
        ([*CARTPOLE, "agent.seed=1,2"], "sweeps over several values.*-m"),
        ([*CARTPOLE, "agent.actor.distribution_cfg=null"], "needs an action distribution"),
        ([*CARTPOLE, "agent.algorithm.class_name=SAC"], "only 'PPO' is supported"),
        ([*CARTPOLE, "agent.obs_groups.actor=[camera]"], "names 'camera', but the task observes"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence(tmp_path: Path, capsys, arguments: list[str], message: str):
    assert train_in(tmp_path, *arguments) == 2
    assert re.search(message, error_of(capsys))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def message_of(tmp_path: Path, capsys):
    """Runs train.py with bad input in ``tmp_path`` and returns its one sentence."""

    def run_it(*arguments: str | Path) -> str:
        before = sorted(tmp_path.rglob("*"))
        assert train_in(tmp_path, *map(str, arguments)) == 2
        assert sorted(tmp_path.rglob("*")) == before
        return error_of(capsys)

    return run_it


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_gpu_that_is_not_there(message_of):
    message = message_of("--task=Isaac-Cartpole-v0", "--device=cuda")
    assert "torch sees no CUDA device" in message


def test_torchrun_without_distributed_is_refused(message_of, monkeypatch):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert "--distributed" in message_of(*CARTPOLE)


@pytest.mark.parametrize(("local_rank", "num_lines"), [("0", 1), ("1", 0)])
def test_one_rank_of_each_node_speaks(
    tmp_path: Path, capsys, monkeypatch, local_rank: str, num_lines: int
):
    for name, value in (TORCHRUN | {"RANK": "1", "LOCAL_RANK": local_rank}).items():
        monkeypatch.setenv(name, value)
    assert train_in(tmp_path, *CARTPOLE) == 2
    assert capsys.readouterr().err.count("\n") == num_lines


def test_a_folder_that_cannot_be_written(message_of, tmp_path: Path):
    (tmp_path / "logs").write_text("a file")
    assert "run directory under" in message_of(*CARTPOLE)


@contextlib.contextmanager
def bound_by_modes() -> Iterator[None]:
    """Drop root's capability, in this thread, to write where a mode forbids it."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # the third version, this thread: capset(2)
    before = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; the low 32 bits first
    assert libc.capget(header, before) == 0, os.strerror(ctypes.get_errno())
    less = (ctypes.c_uint32 * 6)(*before)
    less[0] &= ~(1 << 1)  # CAP_DAC_OVERRIDE
    assert libc.capset(header, less) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0, os.strerror(ctypes.get_errno())


def test_a_folder_without_permission(message_of, tmp_path: Path):
    tmp_path.chmod(0o500)
    with bound_by_modes():
        assert "Permission denied" in message_of(*CARTPOLE)
    tmp_path.chmod(0o700)


def test_a_checkpoint_of_another_task(message_of, trained: Path):
    path = trained / "checkpoints/model_4.pt"
    message = message_of(
        "--task=Isaac-Cartpole-Direct-v0",
        "--device=cpu",
        "--num_envs=4",
        "--resume",
        f"--checkpoint={path}",
    )
    assert "is of the task 'Isaac-Cartpole-v0', but 'Isaac-Cartpole-Direct-v0' was asked" in message


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (
            "..",
            "which is a folder, and no run. Give a run, such as --checkpoint={run}, or the path",
        ),
        ("../..", "which is a folder, and no run. Give a run, such as --checkpoint={run}, or the"),
        (
            "checkpoints",
            "which is a folder, and no run. Give a run, such as --checkpoint={run}, or",
        ),
        ("params/nothing", "There is no checkpoint {run}/params/nothing. Use 'latest', 'best', or"),
        (".", "is of the task 'Isaac-Cartpole-v0', but 'Isaac-Ant-v0' was asked"),
    ],
    ids=["experiment", "library", "checkpoints", "nothing", "run"],
)
@pytest.mark.parametrize("command", ["play", "train"])
def test_a_path_that_is_no_checkpoint_of_the_task_is_named(
    command: str, place: str, words: str, trained: Path, monkeypatch, capsys
):
    """Another task's folder of runs used to be ignored, and the task's own looked in."""
    monkeypatch.chdir(trained.parents[3])
    run = Path(*trained.parts[-4:])
    given = f"--checkpoint={os.path.normpath(run / place)}"
    flags = ["--task=Isaac-Ant-v0", given, "--device=cpu", "--num_envs=2"]
    flags += ["--resume"] if command == "train" else []
    assert main([command, "rsl_rl", *flags]) == 2
    assert words.format(run=trained if "nothing" in place else run) in error_of(capsys)


def test_a_checkpoint_of_another_library(message_of, tmp_path: Path):
    path = tmp_path / "model_1.pt"
    save_checkpoint(path, {"library": "skrl", "task": "Isaac-Cartpole-v0"})
    message = message_of(*CARTPOLE, "--resume", f"--checkpoint={path}")
    assert "is of the library 'skrl', but 'rsl_rl' was asked for" in message


def test_a_truncated_checkpoint(message_of, tmp_path: Path, trained: Path):
    path = tmp_path / "model_4.pt"
    whole = (trained / "checkpoints/model_4.pt").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "truncated" in message_of(*CARTPOLE, "--resume", f"--checkpoint={path}")


def test_a_checkpoint_with_code_in_it(message_of, tmp_path: Path):
    path, touched = tmp_path / "model_4.pt", tmp_path / "touched"
    torch.save({"format_version": FORMAT_VERSION, "x": Bomb(touched)}, path)
    assert "cannot be read" in message_of(*CARTPOLE, "--resume", f"--checkpoint={path}")
    assert not touched.exists()


def test_a_checkpoint_of_other_networks(message_of, trained: Path):
    path = trained / "checkpoints/model_4.pt"
    flags = ["--max_iterations=9", "--resume", f"--checkpoint={path}"]
    message = message_of(*SMALL, *flags, "agent.actor.hidden_dims=[8]")
    assert "does not fit the configured networks" in message


def test_a_budget_below_the_finished_iterations(message_of, trained: Path):
    path = trained / "checkpoints/model_4.pt"
    message = message_of(*SMALL, "--max_iterations=4", "--resume", f"--checkpoint={path}")
    assert "to end at iteration 4, but 4 are done already" in message


def test_ranks_that_cannot_share_the_environments(tmp_path: Path):
    flags = ["--task=Isaac-Cartpole-v0", "--device=cpu", "--distributed", "--global_num_envs=7"]
    code, output = run(torchrun(2, TRAIN, *flags), tmp_path)
    assert code != 0
    errors = [line for line in output.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "--global_num_envs is 7, which 2 processes cannot share equally" in errors[0]
    assert "such as 8" in errors[0]
    report = output.partition("Root Cause")[2]  # torchrun's
    assert "exitcode  : 2" in report
    assert errors[0] in report
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--seed=-2", "The seed is -2"),
        ("agent.algorithm.num_mini_batches=0", "num_mini_batches is 0"),
        ("agent.algorithm.num_mini_batches=9999", "only 512 samples"),
        ("env.actions.joint_effort=null", "The task has 0 actions"),
        ("env.rewards.alive.weight=nan", "env.rewards.alive.weight is nan"),
        (
            "env.events.reset_cart_position.params.position_range=[1,-1]",
            "to draw from is [1.0, -1.0]",
        ),
        ("agent.actor.hidden_dims=[]", "rsl_rl refuses the agent's configuration"),
        ("--experiment_name=..", "agent.experiment_name is '..'"),
        ("--max_frames=0", "--max_frames is 0"),
        ("--seed=5 -m agent.seed=1,2", "but it is swept"),
        ("--seed=5 -m agent={seed:1},{seed:2}", "but it is swept"),
        ("--num_env=5", "There is no flag '--num_env'. Did you mean --num_envs"),
        ("agent.save_interval=0", "agent.save_interval is 0"),
    ],
)
def test_values_that_cannot_train_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
):
    assert train_in(tmp_path, *SMALL, *words.split()) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("error: ")
    assert said in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("overrides", "num_envs"),
    [
        ([], 1024),
        (["env.decimation=4"], 1024),
        (["env.scene.num_envs=3000"], 3000),
        (["env.scene={num_envs: 3000}"], 3000),
        (["env={scene: {num_envs: 3000}}"], 3000),
        (["++env.scene.num_envs=4097"], 4097),
        (["env.scene.num_envs=4096"], 4096),  # the task's default, but set by hand
        (["env.scene.num_envs=${agent.seed}"], 42),
    ],
)
def test_a_number_of_environments_set_by_hand_holds_on_a_cpu(overrides: list[str], num_envs: int):
    session = session_of("rsl_rl", ["--task=Isaac-Cartpole-v0", *overrides])
    assert load_env_cfg(session.task).scene.num_envs == 4096
    context = SimpleNamespace(device=torch.device("cpu"), num_threads=1, world_size=1)
    assert choose_num_envs(session, context) == num_envs  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("library", "task", "num_threads", "num_envs"),
    [
        ("rl_games", "Isaac-Repose-Cube-Allegro-Direct-v0", 1, 2048),  # x 16 steps: one minibatch
        ("rl_games", "Isaac-Repose-Cube-Allegro-Direct-v0", 3, 2048),
        ("rl_games", "Isaac-Repose-Cube-Shadow-OpenAI-LSTM-Direct-v0", 5, 4096),
        ("rl_games", "Isaac-Cartpole-v0", 3, 3072),
        ("rsl_rl", "Isaac-Repose-Cube-Allegro-Direct-v0", 3, 3072),
    ],
)
def test_environments_by_default_make_whole_minibatches(
    library: str, task: str, num_threads: int, num_envs: int
):
    session = session_of(library, [f"--task={task}"])
    context = SimpleNamespace(device=torch.device("cpu"), num_threads=num_threads, world_size=1)
    assert choose_num_envs(session, context) == num_envs  # type: ignore[arg-type]
