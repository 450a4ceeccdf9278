"""Stop and resume signal and start the right processes, and never others."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envlab.errors import RunDirectoryError
from envlab.run.commands import resume_words
from envlab_web.dashboard import control, details
from envlab_web.dashboard.catalogue import Catalogue
from tests.refusals import check_refusals
from tests.web.dashboard.logs import write_run

NAME = "rsl_rl/ant/run"
WRITER = "import signal, sys, time; file = open(sys.argv[1]); print(flush=True); time.sleep(60)"


def listed(root: Path, **manifest):
    write_run(root, "Isaac-Ant-v0", name="run", iterations=5, **manifest)
    return Catalogue(root).run(NAME)


def test_only_the_process_that_holds_the_lock_is_asked_to_end_whatever_files_name(tmp_path):
    with subprocess.Popen(["sleep", "60"]) as bystander:
        run = listed(tmp_path / "logs", status="running", size=1, pid=bystander.pid)
        lock = run.directory / "lock"
        lock.write_text(f"here\n{bystander.pid}\nanything\n")
        try:
            with pytest.raises(RunDirectoryError, match="No process of yours"):
                control.stop(run)
            words = [sys.executable, "-c", WRITER, str(lock)]
            with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
                assert writer.stdout is not None
                writer.stdout.readline()
                assert str(writer.pid) in control.stop(run)
                assert writer.wait(timeout=20) == -signal.SIGTERM
            assert bystander.poll() is None
        finally:
            bystander.kill()


def test_a_launcher_is_asked_in_place_of_its_rank(tmp_path: Path):
    for module in ["torch.distributed.run", "envlab.distributed.torchrun"]:
        assert control.is_launcher(["/usr/bin/python3", "-m", module, "--nnodes=1"])
    assert not control.is_launcher(["/usr/bin/python3", "-m", "envlab", "train"])
    run = listed(tmp_path / "logs", status="running")
    lock = run.directory / "lock"
    lock.touch()
    launcher = tmp_path / "torchrun"
    launcher.write_text(
        "import signal, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', *sys.argv[1:]])\n"
        "signal.signal(signal.SIGTERM, lambda *_: (child.kill(), child.wait(), sys.exit(7)))\n"
        "signal.pause()\n"
    )
    words = [sys.executable, str(launcher), WRITER, str(lock)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert str(process.pid) in control.stop(run)
            assert process.wait(timeout=20) == 7
        finally:
            process.kill()


def test_runs_of_a_sweep_and_of_jax_are_resumed_with_their_own_values(tmp_path: Path):
    manifest, path = {"library": "rsl_rl", "world": {}}, tmp_path / "model_5.pt"
    command = "python train.py --task=Isaac-Ant-v0 -m agent.seed=1,2 +agent.x=3,4 agent.y=5"
    swept = {"agent.seed": "2", "agent.x": "3"}
    assert resume_words(manifest | {"command": command, "swept": swept}, path)[3:] == [
        *("--task=Isaac-Ant-v0", "agent.seed=2", "+agent.x=3", "agent.y=5"),
        *("--resume", f"--checkpoint={path}"),
    ]
    command = "python train.py --task=Isaac-Ant-v0 --ml_framework=jax --distributed"
    facts = {"library": "skrl", "ml_framework": "jax", "world": {"size": 2, "local_size": 2}}
    words = resume_words(facts | {"command": command}, path)
    assert words[:5] == ["envlab", "train", "skrl", "--nproc=2", "--task=Isaac-Ant-v0"]
    assert words[5:7] == ["--ml_framework=jax", "--resume"]


def test_a_run_is_resumed_by_the_words_it_was_started_with_and_no_shell(tmp_path, monkeypatch):
    evil = "agent.x=$(touch pwned); touch pwned"
    typed = "python /x/train.py --task=Isaac-Ant-v0 --load_run a --resume --checkpoint=b"
    command = f"{typed} {shlex.quote(evil)} --distributed"
    run = listed(tmp_path / "logs", status="interrupted", command=command)
    started = []
    real = subprocess.Popen

    def popen(words, **options):
        started.append((words, options))
        wait = "while not os.path.exists('go'): time.sleep(0.01)"
        program = f"import os, sys, time\n{wait}\nprint(sys.argv[1:])"
        return real([sys.executable, "-c", program, *words[1:]], **options)

    monkeypatch.setattr(control.subprocess, "Popen", popen)
    control.resume(run)
    ((words, options),) = started
    newest = run.directory / "checkpoints" / "model_5.pt"
    assert words[1:] == [
        *("-m", "envlab", "train", "rsl_rl", "--nproc=2"),
        *("--task=Isaac-Ant-v0", evil),
        *("--resume", f"--checkpoint={newest}"),
    ]
    assert options["cwd"] == tmp_path
    assert not options.get("shell")
    with pytest.raises(RunDirectoryError, match="has already been resumed"):
        control.resume(run)
    (tmp_path / "go").touch()
    assert control.started.pop(run.directory).wait(timeout=30) == 0
    assert "--nproc=2" in (run.directory / control.OUTPUT).read_text()
    assert not (tmp_path / "pwned").exists()


def test_a_run_that_cannot_be_resumed_starts_nothing(tmp_path: Path):
    """An untrusted run directory cannot name a program, only an installed library."""
    run = listed(tmp_path / "logs", status="failed")
    whole = run.manifest

    def resume(manifest: dict) -> None:
        run.manifest = whole | manifest
        control.resume(run)

    check_refusals(
        resume,
        [
            ({"command": "sh -c 'touch pwned'"}, "cannot be resumed from here"),
            ({"command": "python train.py --task='"}, "cannot be resumed from here"),
            ({"library": "../../evil"}, "cannot be resumed from here"),
            ({"library": None}, "cannot be resumed from here"),
            ({"command": None}, "cannot be resumed from here"),
            ({"world": {"size": 4, "local_size": 2}}, "cannot be resumed from here"),
        ],
    )
    running = listed(tmp_path / "busy/logs", status="running")
    check_refusals(control.resume, [(running, "is running")])


@pytest.mark.parametrize("name", ["lock", control.OUTPUT])
def test_a_link_in_a_run_leads_to_no_other_file_or_process(tmp_path: Path, name: str):
    run = listed(tmp_path / "logs", status="failed")
    (run.directory / name).unlink(missing_ok=True)
    mine = tmp_path / "mine.txt"
    with mine.open("w") as file:
        bystander = subprocess.Popen(["sleep", "60"], stdout=file)
    with bystander:
        try:
            (run.directory / name).symlink_to(mine)
            act = control.stop if name == "lock" else control.resume
            with pytest.raises(RunDirectoryError, match="is a link, which is not followed"):
                act(run)
            assert bystander.poll() is None
        finally:
            bystander.kill()
    assert mine.read_text() == ""


def test_commands_play_and_resume_from_where_the_dashboard_was_started(tmp_path, monkeypatch):
    from envlab.libraries import get_library
    from envlab.training.arguments import play_parser, train_parser

    monkeypatch.delenv("ENVLAB_SH", raising=False)
    monkeypatch.chdir(tmp_path)
    run = listed(tmp_path / "logs", size=1, age_s=-time.timezone)
    newest = details.checkpoints(run)[0]
    checkpoint = f"--checkpoint=logs/{NAME}/checkpoints/model_5.pt"
    assert newest.play == f"envlab play rsl_rl --task=Isaac-Ant-v0 {checkpoint}"
    assert newest.resume.startswith("envlab train rsl_rl --task=Isaac-Ant-v0 ")
    assert newest.resume.endswith(f" --resume {checkpoint}")
    for parser, command in ((play_parser, newest.play), (train_parser, newest.resume)):
        flags, _ = parser(get_library("rsl_rl")).parse_with_overrides(shlex.split(command)[3:])
        assert os.path.samefile(flags.checkpoint, run.directory / "checkpoints/model_5.pt")


def test_the_audit_is_shown(tmp_path: Path):
    assert details.audit({"world": {"size": 1}})[0] == "unknown"
    passed = details.audit({"audit": json.loads('{"iteration": 50, "is_passed": true}')})
    assert passed == ("ok", "Passed at iteration 50: all ranks agree.")
    assert details.audit({"audit": {"iteration": 7, "is_passed": False}})[0] == "lost"
