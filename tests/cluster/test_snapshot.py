"""The files of a working tree that are sent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envlab.errors import LaunchError
from envlab_cluster.hosts import read_hosts
from envlab_cluster.snapshot import Sent, rsync, send_snapshot, take_snapshot
from envlab_cluster.ssh import Ssh
from tests.cluster.conftest import Commander
from tests.cluster.hosts import mounted
from tests.launcher import ROOT


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def repository(folder: Path, **files: str) -> Path:
    folder.mkdir()
    git(folder, "init", "-q")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def test_what_is_there_is_sent_and_a_link_to_a_folder_is_sent_as_a_link(tmp_path: Path):
    """Also from a tree without a commit, whose index names a deleted file."""
    tree = tmp_path / "tree"
    (tree / "folder").mkdir(parents=True)
    git(tree, "init", "-q")
    for name in ("kept", "gone", "folder/b"):
        (tree / name).write_text(name)
    git(tree, "add", "-A")
    (tree / "gone").unlink()
    (tree / "link").symlink_to("folder")
    (tree / "nowhere").symlink_to("nothing")
    assert take_snapshot(tree).files == ("folder/b", "kept", "link", "nowhere")


def test_submodules_and_clones_inside_are_sent(tmp_path: Path):
    library = repository(tmp_path / "library", lib="1", **{".gitignore": "*.secret"})
    tree = repository(tmp_path / "tree", a="1")
    git(tree, "submodule", "add", str(library), "third/sub")
    git(tree, "clone", str(library), "inside")
    (tree / "third/sub/changed").write_text("2")
    (tree / "third/sub/not.secret").write_text("3")
    inside = ["inside/.gitignore", "inside/lib"]
    sub = ["third/sub/.gitignore", "third/sub/changed", "third/sub/lib"]
    first = take_snapshot(tree)
    assert list(first.files) == sorted([".gitmodules", "a", *inside, *sub])
    (tree / "third/sub/lib").write_text("4")
    assert take_snapshot(tree).name != first.name


def test_a_submodule_that_was_not_checked_out_is_left_out(tmp_path: Path):
    library = repository(tmp_path / "library", lib="1")
    tree = repository(tmp_path / "tree", a="1")
    git(tree, "submodule", "add", str(library), "sub")
    git(tree, "commit", "-qam", "second")
    git(tmp_path, "clone", "-q", str(tree), "copy")
    assert take_snapshot(tmp_path / "copy").files == (".gitmodules", "a")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tree = repository(tmp_path / "tree", a="1", b="2")
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:  # root, as whom tests may run, can read all
        if path.name == "b":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(LaunchError, match=r"tree/b cannot be read \(Permission denied\), but what"):
        take_snapshot(tree)


def test_the_commands_own_output_is_no_part_of_the_snapshot(tmp_path: Path):
    tree = repository(tmp_path / "tree", a="1")
    code = "from pathlib import Path; from envlab_cluster.snapshot import take_snapshot\n"
    with (tree / "out.txt").open("w") as out:
        command = [sys.executable, "-c", f"{code}print(take_snapshot(Path('.')).files)"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=tree, stdout=out, env=environment, check=True, timeout=60)
    assert (tree / "out.txt").read_text() == "('a',)\n"


def send(command: Commander, tree: Path) -> Sent:
    host = read_hosts(command.cluster.folder / "hosts.yaml")[0]
    path = str(command.cluster.hosts[0].path)
    return send_snapshot(take_snapshot(tree), host, path, Ssh(command.cluster.ssh_cmd))


def test_code_that_changes_while_it_is_sent_is_refused(
    command: Commander, tree: Path, monkeypatch: pytest.MonkeyPatch
):
    def edit_and_send(*arguments: Any) -> str:
        answer = rsync(*arguments)
        (tree / "new.py").touch()
        return answer

    monkeypatch.setattr("envlab_cluster.snapshot.rsync", edit_and_send)
    with pytest.raises(LaunchError, match=r"tree changed while it was being sent \(new.py\), so"):
        send(command, tree)
    assert not list(command.cluster.hosts[0].path.glob("snapshots/*"))


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """A folder for temporary files from which nothing can be executed."""
    with mounted(tmp_path / "temporary", "noexec,size=1m") as folder:
        yield folder


def test_code_is_sent_where_temporary_files_cannot_be_executed(
    command: Commander, tree: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert send(command, tree).num_files == 3
