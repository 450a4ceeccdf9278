"""Where a run starts: in which directory a restarted launch continues, and what it keeps."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from envlab.agent_cfg import AgentCfg
from envlab.cli import play
from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError, RunDirectoryError
from envlab.libraries import get_library
from envlab.run.directory import EVENTS_TAG, Run
from envlab.training import start
from envlab.training.arguments import train_parser
from envlab.training.curves import open_curves
from envlab.training.launch import train
from envlab.training.plan import RunPlan, plan_run
from envlab.training.start import changed_settings, find_launched, start_of
from tests.trained import SMALL, TASK, manifest_of

LAUNCH: dict[str, Any] = {"agents": ["a:1:9"], "slurm": None, "name": None, "session": 1}


@pytest.fixture(autouse=True)
def here(tmp_path: Path) -> Iterator[None]:
    with contextlib.chdir(tmp_path):
        yield


def make(**launch: Any) -> Path:
    facts = {"launch": LAUNCH | launch, "num_envs": 4}
    context = DistributedContext()
    return Run.create(context, library="x", experiment="y", facts=facts, configs={}).directory


def found(**launch: Any) -> Path | None:
    return find_launched("x", "y", LAUNCH | launch)


def test_a_launch_finds_its_run_by_any_of_its_agents():
    run = make(agents=["a:1:9", "b:2:8"])
    assert found(agents=["c:3:7", "b:2:8"]) == run
    assert found(agents=["b:2:80"]) is None  # another process that got the same number
    assert found(session=2) is None
    assert find_launched("x", "other", LAUNCH) is None


def test_a_slurm_job_finds_its_run_only_when_it_was_requeued(monkeypatch: pytest.MonkeyPatch):
    run = make(agents=["a:1:9"], slurm="c:77:abc")
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    assert found(agents=[], slurm="c:77:abc") is None  # the same command again, in one allocation
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert found(agents=[], slurm="c:77:abc") == run
    assert found(agents=[], slurm="c:78:abc") is None


def test_a_name_decides_alone():
    run = make(name="mine")
    assert found(agents=["z:1:1"], name="mine") == run
    assert found(name="other") is None
    assert found() is None


def test_a_damaged_run_next_to_it_is_skipped():
    run = make()
    for name, text in (("a", ""), ("b", "[]"), ("c", "{}"), ("d", "\udcff")):
        damaged = run.with_name(name) / "run.json"
        damaged.parent.mkdir()
        damaged.write_bytes(text.encode(errors="surrogateescape"))
    assert found() == run
    assert found(agents=["z:1:1"]) is None


def test_a_process_that_trains_twice_numbers_its_sessions(monkeypatch: pytest.MonkeyPatch):
    """A start under torchrun only continues an earlier start's run of the same number."""
    monkeypatch.setattr(start, "restartable_launch", lambda _: "a:1:9")
    for name in ("first", "second"):
        assert train("rsl_rl", [*SMALL, "--max_iterations=1", f"--run_name={name}"]) == 0
    names = {manifest.parent.name[20:] for manifest in Path().glob("logs/*/*/*/run.json")}
    assert names == {"first", "second"}


def test_a_run_on_another_node_is_not_begun_anew():
    plan = plan_of()
    with pytest.raises(RunDirectoryError, match="is /logs/run on h2, but rank 0 now runs on"):
        start_of(plan, [None, ("h2", "/logs/run")])
    assert start_of(plan, [None, None]) is plan


def test_a_reopened_run_keeps_its_beginning_and_records_the_restart():
    directory = make()
    before = manifest_of(directory)
    (directory / "run.json").write_text(json.dumps(before | {"status": "failed", "error": "E"}))
    facts = {"launch": LAUNCH | {"agents": ["b:2:8"]}, "num_envs": 8, "seed": 7}
    context = DistributedContext()
    run = Run.reopen(context, directory, library="x", facts=facts, iteration=5, frames=50)
    manifest = manifest_of(directory)
    assert run.directory == directory
    assert manifest["created_at"] == before["created_at"]
    assert (manifest["status"], manifest["num_envs"]) == ("running", 8)
    assert manifest["launch"]["agents"] == ["b:2:8"]
    assert "seed" not in manifest  # of its beginning
    assert "error" not in manifest
    (restart,) = manifest["restarts"]
    assert (restart["iteration"], restart["after"], restart["error"]) == (5, "failed", "E")


def test_the_curves_of_a_reopened_run_have_one_tail():
    directory, facts = make(), {"launch": LAUNCH}
    context = DistributedContext()
    for first in (1, 3):
        Run.reopen(context, directory, library="x", facts=facts, iteration=2, frames=20)
        curves = open_curves("tensorboard", directory)
        for iteration in range(first, 5):
            curves.add(iteration * 10, {EVENTS_TAG: float(first)})
            curves.add(iteration, {"of the library": float(first)})
        curves.close()
    accumulator = EventAccumulator(str(directory)).Reload()
    for tag, unit in ((EVENTS_TAG, 10), ("of the library", 1)):
        points = [(event.step // unit, event.value) for event in accumulator.Scalars(tag)]
        assert points == [(1, 1.0), (2, 1.0), (3, 3.0), (4, 3.0)]


@pytest.fixture
def broken_off(trained: Path) -> Path:
    """A run of this launch that broke off, with its newest checkpoint damaged."""
    run = Path("logs/rsl_rl/cartpole").absolute() / trained.name
    shutil.copytree(trained, run)
    (run / "run.json").write_text(json.dumps(manifest_of(run) | {"status": "running"}))
    for name in ("model_4.pt", "latest.pt"):
        path = run / "checkpoints" / name
        path.write_bytes(path.read_bytes()[:-1000])
    return run


def plan_of(*others: str, run: Path | None = None) -> RunPlan:
    """Return the plan of the command line, and of the run that it resumes."""
    parsed = train_parser(get_library("rsl_rl")).parse_with_overrides([*SMALL, *others])
    return plan_run(*parsed, get_library("rsl_rl"), run)


def restart(run: Path, *others: str) -> RunPlan:
    """Return the plan with which a launch continues its run."""
    plan = start_of(plan_of(*others), [("here", str(run))])
    assert plan is not None
    return plan


def test_a_restart_resumes_from_the_last_good_checkpoint(broken_off: Path, caplog):
    plan = restart(broken_off)
    assert plan.start.saved is not None
    assert plan.start.checkpoint == broken_off / "checkpoints/model_2.pt"
    assert plan.start.saved["iteration"] == 2
    assert "model_4.pt cannot be read" in caplog.text


def test_the_name_of_another_tasks_run_is_refused_even_if_that_run_is_finished(broken_off: Path):
    path, manifest = broken_off / "run.json", manifest_of(broken_off) | {"status": "finished"}
    path.write_text(json.dumps(manifest))
    here = [("here", str(broken_off))]
    assert start_of(plan_of(), here) is None
    path.write_text(json.dumps(manifest | {"task": "Isaac-Ant-v0"}))
    with pytest.raises(ConfigurationError, match="is of the task 'Isaac-Ant-v0'"):
        start_of(plan_of(), here)


def test_a_restart_without_the_runs_configuration_takes_the_command_lines(broken_off: Path, caplog):
    shutil.rmtree(broken_off / "params")
    assert restart(broken_off).start.checkpoint == broken_off / "checkpoints/model_2.pt"
    assert "taking the command line's" in caplog.text


def test_settings_that_differ_from_the_run_are_named(broken_off: Path):
    def changed(*others: str) -> dict[str, tuple[Any, Any]]:
        return changed_settings(plan_of(*others, run=broken_off), broken_off / "params")

    assert changed() == {}
    assert changed("--max_iterations=9", "--run_name=again") == {}
    found = changed("env.rewards.alive.weight=2", "env.rewards.terminating=null")
    assert found.pop("env.rewards.alive.weight") == (1.0, 2.0)
    (name, (then, now)) = found.popitem()
    assert (name, then["weight"], now) == ("env.rewards.terminating", -2.0, None)
    assert not found


def test_a_given_seed_counts_and_a_drawn_one_stays(broken_off: Path):
    for given, taken in [("7", 7), ("-1", 42)]:
        plan = restart(broken_off, f"--seed={given}")
        assert (plan.agent_cfg.seed, plan.start.changed) == (taken, {})


def test_a_restart_without_a_good_checkpoint_begins_again_and_reports_it(broken_off: Path, caplog):
    for path in (broken_off / "checkpoints").iterdir():
        path.write_bytes(b"")
    plan = restart(broken_off)
    assert (plan.start.checkpoint, plan.start.saved) == (None, None)
    assert "The run starts again from where it began" in caplog.text


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again_as_it_began(
    broken_off: Path, trained: Path
):
    for path in (broken_off / "checkpoints").iterdir():
        path.unlink()
    began, manifest = str(trained / "checkpoints/model_2.pt"), manifest_of(broken_off)
    for words in ((), ("--checkpoint=latest",), ("--resume",)):
        (broken_off / "run.json").write_text(json.dumps(manifest | {"policy_from": began}))
        plan = restart(broken_off, *words)
        assert plan.start.policy is not None, words
        assert (plan.start.kind, plan.start.policy["path"]) == ("continue", began)
    (broken_off / "run.json").write_text(json.dumps(manifest | {"resumed_from": began}))
    rate = "agent.algorithm.learning_rate"
    plan = restart(broken_off, f"{rate}=0.5")
    assert (str(plan.start.checkpoint), plan.start.changed[rate][1]) == (began, 0.5)


def test_policies_that_the_configuration_names_are_opened_again_as_it_names_them(
    broken_off: Path, monkeypatch: pytest.MonkeyPatch
):
    for path in (broken_off / "checkpoints").iterdir():
        path.unlink()
    facts = manifest_of(broken_off) | {"policy_from": "agent.teachers.a=a.pt"}
    (broken_off / "run.json").write_text(json.dumps(facts))
    monkeypatch.setattr(AgentCfg, "policies", lambda self: {"agent.teachers.a": "a.pt"})
    asked: list[str | None] = []

    def opened(plan: RunPlan) -> dict[str, Any]:
        asked.append(plan.flags.checkpoint)
        return {"path": "a.pt"}

    monkeypatch.setattr(start, "open_policies_of", opened)
    assert restart(broken_off).start.policy == {"path": "a.pt"}
    assert asked == [None]  # with which --checkpoint is refused


def test_resume_and_play_fall_back_but_not_from_a_named_checkpoint(broken_off: Path, capsys):
    resume = [*SMALL, "--max_iterations=3", "--resume"]
    assert train("rsl_rl", [*resume, "--checkpoint=model_4.pt"]) == 2
    assert "model_4.pt cannot be read" in capsys.readouterr().err
    assert train("rsl_rl", resume) == 0
    errors = capsys.readouterr().err
    assert "Skipped a checkpoint: The checkpoint" in errors
    assert "model_2.pt (iteration 2)" in errors
    few = [TASK, "--device=cpu", "--num_envs=4", "--no_export", f"--load_run={broken_off}"]
    assert play("rsl_rl", [*few, "env.episode_length_s=0.1"]) == 0
    heard = capsys.readouterr()
    assert "Skipped a checkpoint" in heard.err
    assert "model_2.pt: iteration 2, " in heard.out
