"""scripts/d*.py: AllenAct's flags work as before, by the verbs of ``envlab cluster``."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
from pathlib import Path

import pytest

from envlab.config import compose
from envlab.distributed.program import guarded
from envlab_cluster.allenact_flags import dcommand, dconfig, dkill, dmain, kill_flags, launch_flags
from envlab_cluster.hosts import Host
from envlab_cluster.state import RunState
from tests.cluster.runs import run_on
from tests.launcher import ROOT

TASK = ["rsl_rl", "--task=Isaac-Cartpole-v0"]
EXPERIMENT = "source/projects/tutorials/distributed_objectnav_tutorial.py"
NODES = ["--runs_on", "node0,node1"]


@pytest.fixture
def run_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunState:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    state = run_on(Host(name="node0", address="node0"), ssh_cmd="ssh {addr}")
    state.save()
    return state


def test_dmain_starts_the_command_of_its_flags_on_every_node(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    kwargs = '{"distributed_nodes": 2, "agent": {"experiment_name": "it\'s \\"it\\"", "seed": 4}}'
    where = ["--env_activate_path", "/v/bin/activate", "--envlab_path", "/a folder"]
    meeting = ["--distributed_ip_and_port", "node0:5555", "--ssh_cmd", "ssh -f {addr}"]
    more = ["--config_kwargs", kwargs, "--num_envs", "16", "--extra_tag", "b", "--dry_run"]
    assert guarded(dmain, [*TASK, *NODES, *where, *meeting, *more]) == 0
    printed = capsys.readouterr().out
    for number in range(2):
        assert re.search(rf"^# .*\bnode{number}\b", printed, re.MULTILINE)
    assert ". /v/bin/activate" in printed
    assert "cd -- '/a folder'" in printed
    begin = printed.rindex("-m envlab.distributed.torchrun")
    words = shlex.split(printed[begin : printed.rindex("code=$?")])
    assert {"--rdzv_endpoint=node0:5555", "--task=Isaac-Cartpole-v0", "--run_name=b"} <= set(words)
    assert words[words.index("--num_envs") + 1] == "16"
    overrides = [word for word in words if word.startswith("agent.")]
    agent = compose({"agent": {"experiment_name": "", "seed": 0}}, overrides)["agent"]
    assert agent == {"experiment_name": 'it\'s "it"', "seed": 4}


def test_dmain_gives_an_experiment_its_arguments_and_each_node_its_number(monkeypatch, capsys):
    """The command of AllenAct's tutorial, with its file."""
    monkeypatch.chdir(ROOT)
    file = "tests/navigation/ddppo/allenact_experiment.py"
    kwargs = ["--config_kwargs", '{"distributed_nodes": 3}', "--allenact"]
    where = ["--env_activate_path", "/v/bin/activate", "--allenact_path", "/a folder"]
    meeting = ["--distributed_ip_and_port", "node0:5555", "--seed=7", "--dry_run"]
    nodes = ["--runs_on", "node0,node1,node2"]
    assert guarded(dmain, [file, *kwargs, *nodes, *where, *meeting]) == 0
    scripts = capsys.readouterr().out.split("-m envlab.distributed.torchrun")[1:]
    assert len(scripts) == 3
    for number, script in enumerate(scripts):
        words = shlex.split(script[: script.index("code=$?")])
        assert f"--machine_id={number}" in words
        (experiment,) = [word for word in words if word.startswith("--experiment=")]
        assert re.fullmatch(rf"--experiment=/a folder/snapshots/[^/]+/{file}", experiment)
        assert '--config_kwargs={"distributed_nodes": 3}' in words
        assert {"--allenact", "--seed=7", "--distributed"} <= set(words)


def test_dmain_finds_the_tutorials_experiment_as_allenact_spells_it(monkeypatch):
    monkeypatch.chdir(ROOT)
    spelled = [launch_flags([*NODES, word]).words for word in (EXPERIMENT[7:], EXPERIMENT)]
    assert spelled == [["ddppo", EXPERIMENT]] * 2
    other = launch_flags([*NODES, "projects/mine.py"]).words  # nowhere: it is refused later
    assert other == ["projects/mine.py"]


def test_dmain_separates_its_flags_from_those_of_train_py():
    given = ["--nproc_per_node=2", "-s", "7", "--fetch", "--max_iterations", "5", "--device=cpu"]
    flags = launch_flags([*TASK, *NODES, *given])
    assert (flags.runs_on, flags.nproc_per_node, flags.fetch) == ("node0,node1", 2, True)
    assert flags.words == [*TASK, "--max_iterations", "5", "--device=cpu", "--seed=7"]


def test_dmain_refuses_in_one_sentence(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    for given, sentence in (
        ([*TASK, *NODES, "--max_iteration=3"], "Did you mean --max_iterations"),
        (["rsl_rl", "--task=Isaac-Cartpol-v0", *NODES], "Did you mean Isaac-Cartpole-v0"),
        ([*TASK, "--dry_run"], "No hosts are named"),
        ([EXPERIMENT, *NODES, '--config_kwargs={"distributed_node": 2}'], "Did you mean distri"),
    ):
        assert guarded(dmain, given) == 2
        errors = capsys.readouterr().err
        assert errors.startswith("error: ")
        assert sentence in errors


def test_dconfig_runs_a_script_on_every_node(tmp_path: Path, capsys):
    script = tmp_path / "my config.sh"
    script.write_text("echo DONE\n")
    given = [*NODES, "--config_script", str(script), "--ssh_cmd", "ssh -f -p 22 {addr}"]
    assert guarded(dconfig, [*given, "--dry_run"]) == 0
    printed = capsys.readouterr().out
    assert "node1" in printed
    assert "echo DONE" in printed


def test_dcommand_asks_the_given_nodes_or_those_of_a_run(run_state: RunState, capsys):
    command = ["--command", "tail -n 5 'a b'"]
    assert guarded(dcommand, [*NODES, *command, "--dry_run"]) == 0
    assert "Would run on node1 (node1): tail -n 5 'a b'" in capsys.readouterr().out
    given = ["--screen_ids_file", str(run_state.file), "--timeout_s=3"]
    assert guarded(dcommand, [*given, "--dry_run"]) == 0
    assert "Would run on node0 (node0): GPU use, or load" in capsys.readouterr().out


def test_dkill_takes_a_state_file_or_asks_for_each_run(run_state: RunState, capsys):
    given = ["--screen_ids_file", str(run_state.file), "--yes"]
    assert kill_flags([]).all
    assert not kill_flags(["--yes"]).all  # all of them at once would be too much to guess
    assert guarded(dkill, [*given, "--dry_run"]) == 0
    assert f"Would end run {run_state.id} on node0" in capsys.readouterr().out


def test_the_scripts_have_help_with_an_example(monkeypatch, capsys):
    names = ("dconfig", "dmain", "dcommand", "dkill")
    for name in names:
        monkeypatch.setattr("sys.argv", [f"scripts/{name}.py", "--help"])
        with pytest.raises(SystemExit, match="0"):
            runpy.run_path(str(ROOT / f"scripts/{name}.py"), run_name="__main__")
        assert f"Example:\n  scripts/{name}.py" in capsys.readouterr().out


def test_the_scripts_start_by_their_path_alone():
    for name in ("dconfig", "dmain", "dcommand", "dkill", "run_lab"):
        script = ROOT / f"scripts/{name}.py"
        assert os.access(script, os.X_OK), f"chmod +x {script}"
        assert script.read_text().startswith("#!/usr/bin/env python3\n"), name


def test_a_working_tree_that_is_not_envlabs_is_refused(tmp_path: Path, monkeypatch, capsys):
    """The folder is a clone of AllenAct, where its users call dmain.py."""
    (tmp_path / "experiment.py").write_text("class Mine:\n    def training_pipeline(self): ...\n")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    monkeypatch.chdir(tmp_path)
    where = ["--env_activate_path", "/v/bin/activate", "--dry_run"]
    assert guarded(dmain, ["experiment.py", *NODES, *where]) == 2
    assert "not envlab's. Run this command in your clone of envlab" in capsys.readouterr().err
