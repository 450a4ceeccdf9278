"""A fault of a host is one sentence that names it, and leaves nothing half started."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from envlab import cli
from envlab_cluster.state import launch_lock
from tests.agents import dead_port
from tests.cluster.conftest import Commander
from tests.cluster.hosts import mounted


def hosts_file(command: Commander, folder: Path, **changes: dict[str, Any]) -> Path:
    """Return a copy of the cluster's ``hosts.yaml`` in which hosts have other values."""
    content = yaml.safe_load((command.cluster.folder / "hosts.yaml").read_text())
    for entry in content["hosts"]:
        entry.update(changes.get(entry["name"], {}))
    path = folder / "changed.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def check_refused(
    command: Commander, tree: Path, sentence: str, *flags: str, ssh_cmd: str | None = None
) -> None:
    """Check that a launch is refused in one sentence, and leaves nothing on any host."""
    output = command.launch(tree, *flags, ssh_cmd=ssh_cmd, ends=2)
    (line,) = [line for line in output.splitlines() if line.startswith("error: ")]
    assert re.search(sentence, line), line
    assert "Traceback" not in output
    assert command.cluster.living() == {}
    homes = [host.home for host in command.cluster.hosts]
    assert not [path for home in homes for path in home.rglob("runs/*/")]
    assert not [path for home in homes for path in home.rglob(".part-*")]
    assert not list(Path(os.environ["XDG_STATE_HOME"]).glob("envlab/cluster/*.json"))


def test_a_host_out_of_reach(command: Commander, tree: Path, tmp_path: Path):
    """By its port, its key, and the key that it wants; or another host at its place."""
    key, hosts = tmp_path / "other", command.cluster.hosts
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    with dead_port() as port:
        for change, sentence in [
            ({"port": port}, "Host host1: nothing listens at its ssh port"),
            ({"key": str(key)}, "Host host1: it refuses the key.*Permission denied"),
            ({"port": hosts[0].port}, f"the folder {hosts[0].path} is another host's, too: name "),
        ]:
            changed = hosts_file(command, tmp_path, host1=change)
            check_refused(command, tree, sentence, "--runs_on=host0,host1", f"--hosts={changed}")
    known = "ssh -F none -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes {addr}"
    sentence = "Host host0: its host key is not known here: log in once by"
    check_refused(command, tree, sentence, "--runs_on=host0", ssh_cmd=known)


def test_a_host_that_lacks_what_was_asked_for(command: Commander, tree: Path):
    home = command.cluster.hosts[0].home
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for flag, sentence in [
            ("--env_activate_path=~/none/bin", f"has no Python environment at {home}/none/bin"),
            (
                f"--distributed_ip_and_port=127.0.0.1:{port}",
                f"port {port}, for the .* is in use there",
            ),
            ("--min_free_mb=1000000000", "only .* but 1000000000 are needed: make room"),
        ]:
            check_refused(command, tree, f"host0: {sentence}", "--runs_on=host0", flag)


def test_a_host_without_rsync(command: Commander, tree: Path):
    home = command.cluster.hosts[1].home
    tools = home / "tools"
    tools.mkdir()
    for folder in map(Path, ("/usr/bin", "/bin")):
        for tool in folder.iterdir():
            if tool.name != "rsync" and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    # bash reads this file when ssh starts it; otherwise, PATH is the server's own.
    (home / ".bashrc").write_text(f"export PATH={tools}\n")
    check_refused(command, tree, "Host host1: has no rsync.*apt install", "--runs_on=host0,host1")


def test_packages_of_another_version(command: Commander, tree: Path):
    # A host's PYTHONPATH, from the file that bash reads when ssh starts it.
    home = command.cluster.hosts[2].home
    info = home / "older/numpy-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.0.0\n")
    (home / ".bashrc").write_text(f"export PYTHONPATH='{info.parent}'\n")
    sentence = "host host2 has numpy 1.0.0 where others have numpy "
    check_refused(command, tree, sentence, "--runs_on=host0,host2")
    command.launch(tree, "--runs_on=host2,host0", "--allow_different_versions")
    command("kill", "--yes")


@pytest.fixture
def full_disk(command: Commander) -> Iterator[Path]:
    """The folder of host1 on a disk of 2 MB."""
    with mounted(command.cluster.hosts[1].path, "size=2m") as path:
        yield path


@pytest.mark.parametrize("says_why", [True, False])
def test_a_disk_that_fills_up(says_why: bool, command: Commander, tree: Path, full_disk: Path):
    if not says_why:
        break_rsync(command.cluster.hosts[1].home)
    (tree / "larger.txt").write_bytes(bytes(3_000_000))
    sentence = "Host host1: its disk is full: free some space"
    check_refused(command, tree, sentence, "--runs_on=host0,host1", "--min_free_mb=1")
    assert {path.name for path in full_disk.rglob("*.txt")} == set()


def break_rsync(host: Path) -> None:
    """Have a host's rsync end without any message."""
    (host / "tools").mkdir()
    (host / "tools/rsync").write_text("#!/bin/sh\nexit 11\n")
    (host / "tools/rsync").chmod(0o755)
    (host / ".bashrc").write_text(f"export PATH='{host}/tools':$PATH\n")


def test_a_transfer_that_breaks_off_where_there_is_room(command: Commander, tree: Path):
    break_rsync(command.cluster.hosts[1].home)
    sentence = r"Host host1: rsync failed with code 12 \(.*closed"
    check_refused(command, tree, sentence, "--runs_on=host0,host1")


def test_a_launch_while_another_one_starts(command: Commander, tree: Path):
    with launch_lock():
        here = rf"Another launch is starting from here \(process {os.getpid()}"
        check_refused(command, tree, here)


def test_a_launch_on_a_host_with_somebody_elses_run(
    command: Commander, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    command.launch(tree, "--runs_on=host1")
    (state,) = Path(os.environ["XDG_STATE_HOME"]).glob("envlab/cluster/*.json")
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
        output = command.launch(tree, "--runs_on=host0,host1", ends=2)
        assert f"error: Host host1: the run {state.stem} already exists" in output
        command.launch(tree, "--runs_on=host1", "--beside_others")
        command("kill", "--yes")
        # A run without a state file here is ended on its hosts.
        hosts = f"--hosts={command.cluster.folder / 'hosts.yaml'}"
        output = command("kill", "--yes", hosts, "--run=1999", ends=2)
        assert f"--run is '1999', but what runs there is: {state.stem}." in output
        output = command("kill", "--yes", hosts)
        assert f"Run {state.stem} on host1: found on its hosts\nhost1: ended, no" in output
        assert command("kill", "--yes", hosts) == "Nothing runs there.\n"
    assert command.cluster.living() == {}


def test_all_or_nothing(command: Commander, tree: Path):
    (command.cluster.hosts[2].home / "fails").touch()
    output = command.launch(tree, ends=2)
    assert "error: Host host2: its part ended with code 9 at once; its log ends with:" in output
    assert "no such device" in output
    assert command.cluster.living() == {}
    assert not list(Path(os.environ["XDG_STATE_HOME"]).glob("envlab/cluster/*.json"))


NASTY = """env.note={a: {b: ["it's", "\\"$HOME\\" `id` \\\\ *", 1]}, c: null}"""


def test_words_and_paths_with_spaces_and_quotes(command: Commander, tree: Path):
    path = """it's a "folder" of $HOME; & more"""
    more = [NASTY, "--run_name=two  words"]
    command.launch(tree, "--runs_on=host1", f"--envlab_path={path}", more=more)
    words = command.words_of(1)
    assert NASTY in words
    assert "--run_name=two  words" in words
    home = command.cluster.hosts[1].home
    (script,) = (home / path).glob("snapshots/*/scripts/reinforcement_learning/rsl_rl/train.py")
    assert str(script) in words
    assert not (home / path / f"snapshots/{script.parts[-5]}/a.secret").exists()
    assert "running" in command("status")
    command("kill", "--yes")


def test_wrong_words_in_a_working_tree_are_one_sentence(
    tree: Path, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tree)
    (tree / "hosts.yaml").write_text("hosts: [host0]\n")
    task = "--task=Isaac-Cartpole-v0"
    for words, message in (
        (["launch"], "Say what to train"),
        (["launch", "rslrl"], "neither a library (rsl_rl, rl_games, skrl, "),
        (["launch", "rsl_rl", "--task=Isaac-Cartpol-v0"], "Isaac-Cartpole-v0"),
        (["launch", "--ssh_cmd=ssh", "rsl_rl", task], "with {addr} once"),
        (["status"], "No run is known here"),
    ):
        assert cli.main(["cluster", *words]) == 2
        captured = capsys.readouterr().err
        assert message in captured
        assert captured.count("\n") == 1


LAUNCH = ["launch", "--runs_on=host0", "rsl_rl", "--task=Isaac-Cartpole-v0"]
SETUP = ["setup", "--runs_on=host0"]


@pytest.fixture
def only_git(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all programs, of which there is one, in a working tree."""
    programs = tmp_path / "programs"
    programs.mkdir()
    git = shutil.which("git")
    assert git is not None
    (programs / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tree)
    return programs


def test_a_dry_run_needs_neither_ssh_nor_rsync(only_git: Path, capsys):
    for verb, *flags in (LAUNCH, SETUP):
        assert cli.main(["cluster", verb, "--dry_run", *flags]) == 0
        assert "would" in capsys.readouterr().out.lower()


def test_what_is_missing_here_is_named_before_a_host_is_asked(only_git: Path, capsys):
    def refused() -> set[str]:
        codes = {cli.main(["cluster", *words]) for words in (LAUNCH, SETUP)}
        assert codes == {2}
        return set(capsys.readouterr().err.splitlines())

    ssh = only_git / "ssh"
    (only_git / "rsync").symlink_to(only_git / "git")
    (line,) = refused()
    assert "There is no command 'ssh' here: install OpenSSH's client" in line
    (only_git / "rsync").unlink()
    ssh.write_text(f"#!/bin/sh\necho >{only_git / 'asked'}\nexit 255\n")
    ssh.chmod(0o755)
    (line,) = refused()
    assert "There is no rsync here, which sends the code: install it" in line
    assert not (only_git / "asked").exists()


def test_a_host_without_bash(command: Commander, tree: Path, tmp_path: Path):
    """As with the shell of an appliance or a container."""
    shell = tmp_path / "login"
    shell.write_text("#!/bin/sh\necho 'Welcome!'\necho 'sh: 1: bash: not found' >&2\nexit 127\n")
    shell.chmod(0o755)
    sentence = r"Host host0: its shell cannot run bash \(sh: 1: bash: not found\)"
    check_refused(command, tree, sentence, "--runs_on=host0", ssh_cmd=f"{shell} {{addr}}")
