"""The functions of ``import envlab`` at a Python prompt, which do the same as the commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch

import envlab
from envlab import cli
from envlab.distributed.interrupt import SIGNALS
from envlab.errors import CheckpointError, ConfigurationError, EnvlabError, RunDirectoryError
from envlab.sim.opengl import opengl_problems
from tests.learner_contract import digests

CARTPOLE = "Isaac-Cartpole-v0"
PUBLIC = ["list_tasks", "load_policy", "make", "runs", "train"]


def train(iterations: int, **flags: Any) -> envlab.TrainingRun:
    """Train Cartpole for some iterations."""
    return envlab.train(
        CARTPOLE, max_iterations=iterations, num_envs=16, device="cpu", **{"seed": 3, **flags}
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a run of two iterations in a separate folder, the current one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("prompt"))
        yield train(2)


def test_the_import_is_cheap_and_tab_shows_public_names() -> None:
    code = "import sys, envlab; print([name in sys.modules for name in ('torch', 'gymnasium')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert shown.stdout.strip() == "[False, False]", shown.stderr
    assert [name for name in dir(envlab) if name[0].islower()] == PUBLIC
    for name in PUBLIC:
        assert getattr(envlab, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'mak'"):
        envlab.mak  # type: ignore[attr-defined]  # noqa: B018


def test_a_trained_run_has_its_facts(run: envlab.TrainingRun) -> None:
    assert (run.task, run.library, run.status) == (CARTPOLE, "rsl_rl", "finished")
    records = run.metrics()
    assert [record["iteration"] for record in records] == [1, 2]
    assert run.mean_return == records[-1]["mean_return"]
    assert run.checkpoint().name == "model_2.pt"
    assert f"{run.directory}" in repr(run)
    assert "finished at iteration 2" in repr(run)


def test_runs_finds_it_among_others(run: envlab.TrainingRun) -> None:
    assert [found.directory.resolve() for found in envlab.runs(task="CARTPOLE")] == [run.directory]
    assert envlab.runs(library="skrl") == []
    assert [found.manifest["seed"] for found in envlab.runs(run.directory.parent)] == [3]


def test_the_run_is_the_one_that_the_command_line_makes(
    run: envlab.TrainingRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"--task={CARTPOLE}", "--num_envs=16", "--max_iterations=2", "--seed=3"]
    assert run.manifest["command"].endswith(f"envlab train rsl_rl {' '.join(words)} --device=cpu")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "rsl_rl", *words, "--device=cpu"]) == 0
    (typed,) = envlab.runs()
    ends = [digests(torch.load(one.checkpoint())["model"]) for one in (run, typed)]
    assert ends[0] == ends[1]


def test_a_resumed_run_continues_from_the_checkpoint(
    run: envlab.TrainingRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    longer = train(3, resume=True, checkpoint=run.checkpoint(), trust=["math", "json"])
    assert longer.manifest["flags"]["trust"] == ["math", "json"]
    assert [record["iteration"] for record in longer.metrics()] == [3]


def test_a_task_of_this_process_can_be_trained(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = gymnasium.spec(CARTPOLE)
    gymnasium.register("Prompt-Cartpole-v0", spec.entry_point, kwargs=spec.kwargs)
    try:
        trained = envlab.train("Prompt-Cartpole-v0", max_iterations=1, num_envs=4, device="cpu")
        assert trained.task == "Prompt-Cartpole-v0"
    finally:
        del gymnasium.registry["Prompt-Cartpole-v0"]


def test_a_policy_is_the_one_that_play_plays(run: envlab.TrainingRun) -> None:
    typed = played_by_hand(run, "--num_envs=4", "--num_episodes=8")
    for source in [run, str(run.directory), run.checkpoint()]:
        policy = envlab.load_policy(source, num_envs=4, device="cpu")
        try:
            played = policy.evaluate(8)
            assert played == {name: typed[name] for name in played}
            obs, _ = policy.env.reset()
            actions = policy(obs)
            assert actions.shape == (4, 1)
            assert torch.equal(actions, policy(obs))
        finally:
            policy.env.close()


def played_by_hand(run: envlab.TrainingRun, *words: str) -> dict[str, Any]:
    """Return what ``envlab play`` writes of a run's policy."""
    chosen = [f"--task={CARTPOLE}", f"--checkpoint={run.checkpoint()}", "--no_export"]
    assert cli.main(["play", "rsl_rl", *chosen, "--device=cpu", "--json=out.json", *words]) == 0
    return json.loads(Path("out.json").read_text())


def test_a_policy_is_evaluated_over_as_many_episodes_as_play_plays(run) -> None:
    policy = envlab.load_policy(run, device="cpu")
    try:
        assert policy.env.num_envs == 1
        played, typed = policy.evaluate(), played_by_hand(run)
        assert played == {name: typed[name] for name in played}
        assert played["num_episodes"] == 64
        assert played["return_std"] > 0.0
        assert policy.evaluate(3)["num_episodes"] == 3
        with pytest.raises(ConfigurationError, match="num_episodes is -1, but"):
            policy.evaluate(-1)
    finally:
        policy.env.close()


def test_an_installed_policy_is_loaded_by_its_task_and_can_be_rendered() -> None:
    policy = envlab.load_policy("Isaac-Cartpole", num_envs=2, overrides=["env.decimation=4"])
    try:
        assert policy.env.cfg.decimation == 4
        assert policy.task == CARTPOLE
        obs, _ = policy.env.reset()
        for _ in range(5):
            obs, *_ = policy.env.step(policy(obs))
        if not opengl_problems():
            picture = policy.env.render()
            assert picture.shape == (360, 640, 3)
            assert picture.std() > 0
    finally:
        policy.env.close()


def test_environments_of_make_render_by_default() -> None:
    env = envlab.make(CARTPOLE, num_envs=1, device="cpu")
    assert env.render_mode == "rgb_array"
    env.close()


@pytest.mark.long
@pytest.mark.slow
def test_two_processes_train_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    both = train(1, nproc=2)
    assert both.manifest["world"]["size"] == 2
    assert both.status == "finished"


def test_ctrl_c_saves_and_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def press() -> None:
        while not list(tmp_path.glob("logs/*/*/*/metrics.jsonl")):
            done.wait(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    done = threading.Event()
    threading.Thread(target=press, daemon=True).start()
    handlers = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(KeyboardInterrupt):
        train(100_000)
    assert [signal.getsignal(number) for number in SIGNALS] == handlers  # for the next signal
    (stopped,) = envlab.runs()
    assert stopped.status == "interrupted"
    assert stopped.checkpoint().is_file()


def test_bad_input_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, sentence in [
        ({"max_iteration": 3}, "no flag '--max_iteration'. Did you mean --max_iterations"),
        ({"max_iterations": 0}, "--max_iterations is 0, but must be greater than 0"),
        ({"library": "rslrl"}, "no library 'rslrl'.*rsl_rl"),
        ({"dry_run": True}, "returns one run, which dry_run does not end in"),
        ({"overrides": ["env.decimatoin=3"]}, "decimatoin.*env.decimation"),
    ]:
        monkeypatch.chdir(tmp_path)
        before = list(sys.argv)
        with pytest.raises(ConfigurationError, match=sentence):
            envlab.train(CARTPOLE, device="cpu", **flags)
        assert sys.argv == before
        assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_processes_that_fail_are_an_error_here(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EnvlabError, match="ended with exit code"):
        envlab.train(CARTPOLE, nproc=2, overrides=["env.decimatoin=3"])


def test_missing_policies_and_folders_are_reported(tmp_path: Path) -> None:
    for policy, sentence in (
        ("Isaac-Velocity-Flat-G1-v0", "No policy of Isaac-Velocity-Flat-G1-v0 is inst"),
        (tmp_path, "neither a run directory nor a checkpoint"),
        ("no/such/run", "neither a run directory nor a checkpoint"),
    ):
        with pytest.raises(CheckpointError, match=sentence):
            envlab.load_policy(policy)
    with pytest.raises(RunDirectoryError, match="There is no folder"):
        envlab.runs(tmp_path / "nowhere")
