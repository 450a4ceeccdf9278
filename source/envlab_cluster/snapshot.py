"""The working tree as it is now, on every host, under the hash of its content.

Files that git tracks, or neither tracks nor ignores, also in submodules and clones inside, are sent
by rsync to ``<path>/snapshots/<content hash>``. Files that an earlier snapshot there has become
hard links to it, so a second launch sends changes only, and a third of the same tree nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from envlab.errors import EnvlabError, LaunchError
from envlab_cluster.hosts import Host
from envlab_cluster.ssh import Answer, HostError, Ssh, converse, on_all
from envlab_cluster.state import RunState

TRANSFER_TIMEOUT_S = 600.0
KEEP_SNAPSHOTS = 5
_FULL = "its disk is full: free some space, or name another by --envlab_path."


class TransferError(HostError):
    """rsync failed without a known reason."""

    def __init__(self, host: Host, code: int, said: str) -> None:
        super().__init__(host, f"rsync failed with code {code} ({said}).")


@dataclass(frozen=True)
class Snapshot:
    """A working tree: its files, the hash of their names, modes and contents, and their size."""

    root: Path
    files: tuple[str, ...]
    digests: tuple[str, ...]
    """Hashes of each file's name, mode and content."""
    name: str
    num_bytes: int


@dataclass(frozen=True)
class Sent:
    """The transfer of a snapshot to a host."""

    folder: str
    """The snapshot's path on the host, absolute."""
    num_files: int
    """Files that were sent, without those that the host already had."""
    num_bytes: int


def take_snapshot(start: Path) -> Snapshot:
    """Return the snapshot of the working tree that holds a folder.

    Raises:
        LaunchError: If it is no git working tree, or git is missing here.
    """
    _check_here("git")
    root = Path(_git(start, "rev-parse", "--show-toplevel").removesuffix("\n"))
    own = list(_outputs())
    files = tuple(sorted(name for name in set(_list_files(root)) if _stat(root / name) not in own))
    digests = []
    for name in files:
        try:
            parts = (os.fsencode(name), *_content(root / name))
        except OSError as error:
            raise LaunchError(
                f"{root / name} cannot be read ({error.strerror}), but what git tracks or does not "
                "ignore is sent to the hosts: make it readable, or have git ignore it."
            ) from error
        framed = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        digests.append(hashlib.sha256(framed).hexdigest())
    num_bytes = sum((root / name).lstat().st_size for name in files)
    whole = hashlib.sha256("".join(digests).encode()).hexdigest()[:16]
    return Snapshot(root, files, tuple(digests), whole, num_bytes)


def check_rsync() -> None:
    """Check that rsync, which a transfer needs and a dry run does not, exists on this machine.

    Raises:
        LaunchError: If it does not.
    """
    _check_here("rsync")


def _check_here(tool: str) -> None:
    if shutil.which(tool) is None:
        raise LaunchError(
            f"There is no {tool} here, which sends the code: install it (Debian, Ubuntu: apt "
            f"install {tool})."
        )


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, errors="surrogateescape"
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise LaunchError(
            f"{folder} is not in a git working tree, and only such a tree can be sent to the hosts "
            f"({said[0] if said else 'git failed'}): run this command in your clone of envlab."
        )
    return done.stdout


def _list_files(root: Path) -> Iterator[str]:
    """Yield the files of a working tree, and of submodules and clones inside it."""
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if _is_file(root / name):
            yield name
        elif (root / name / ".git").exists():  # a clone, which git lists as one entry
            folder = name.rstrip("/")
            yield from (f"{folder}/{inner}" for inner in _list_files(root / name))


def _outputs() -> Iterator[tuple[int, int]]:
    """Yield the files of this command's own output, which grow during the transfer."""
    for stream in (1, 2):
        with contextlib.suppress(OSError):  # it is closed
            found = os.fstat(stream)
            yield found.st_dev, found.st_ino


def _stat(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _content(path: Path) -> tuple[bytes, bytes]:
    """Return the kind of a file, and its content or target."""
    if path.is_symlink():
        return b"link", os.fsencode(os.readlink(path))
    kind = b"script" if path.stat().st_mode & 0o100 else b"file"
    return kind, hashlib.sha256(path.read_bytes()).digest()


def send_snapshot(snapshot: Snapshot, host: Host, path: str, ssh: Ssh) -> Sent:
    """Send a snapshot to a host, if it is not there yet.

    Args:
        snapshot: The snapshot.
        host: The host.
        path: Folder on the host.
        ssh: The connection to it.

    Raises:
        HostError: If it cannot be sent whole.
        LaunchError: If the working tree changed meanwhile. Either way, no file is left on the host.
    """
    part = f".part-{secrets.token_hex(4)}"

    def see_to(verb: str) -> Answer:
        return ssh.run(host, "snapshot.sh", verb, path, snapshot.name, part)

    found = see_to("look").values
    folder = found["folder"]
    if "exists" in found:
        return Sent(f"{folder}/{snapshot.name}", 0, 0)
    options = ["--from0", "--files-from=-", "--stats"]
    if "previous" in found:
        options.append(f"--link-dest={folder}/{found['previous']}")
    try:
        names = b"".join(os.fsencode(name) + b"\0" for name in snapshot.files)
        stats = rsync(ssh, host, [*options, f"{snapshot.root}/", f"host:{folder}/{part}/"], names)
        _check_unchanged(snapshot)
        see_to("keep")
    except EnvlabError as error:
        free = int(see_to("drop").values["free_bytes"])
        if isinstance(error, TransferError):
            _check_unchanged(snapshot)  # such as a missing file
            # When a disk fills up, rsync's sender may end before the other side's message arrives.
            if free < snapshot.num_bytes:
                raise HostError(host, _FULL) from error
        raise
    return Sent(
        f"{folder}/{snapshot.name}",
        _number(r"regular files transferred: ([\d,.]+)", stats),
        _number(r"Total transferred file size: ([\d,.]+)", stats),
    )


def _check_unchanged(snapshot: Snapshot) -> None:
    """Check that the sent files still match the snapshot's name.

    Raises:
        LaunchError: If they may not, with the name of a file.
    """
    now = take_snapshot(snapshot.root)
    if now.name == snapshot.name:
        return
    before = dict(zip(snapshot.files, snapshot.digests, strict=True))
    after = dict(zip(now.files, now.digests, strict=True))
    changed = min(name for name, _ in before.items() ^ after.items())
    raise LaunchError(
        f"The working tree {snapshot.root} changed while it was being sent ({changed}), so hosts "
        "might differ: run this command again; if that is no code, have git ignore it."
    )


def prune_snapshots(run: RunState, ssh: Ssh, keep: int, say: Callable[[str], None]) -> None:
    """Remove old snapshots from a run's hosts, and report them in one line.

    The newest stay, and those that anything refers to: the folder of a run, alive or not; a
    process; the environment that ``setup`` made. Nothing is removed from a host where another
    launch is starting, and a failing host only gives a warning.

    Args:
        run: The run, which has started.
        ssh: The connection to its hosts.
        keep: Number of newest snapshots to keep; 0: all.
        say: Prints a line.
    """
    if keep == 0:
        return

    def remove(host: Host) -> list[str]:
        answer = ssh.run(host, "prune.sh", run.node_of(host).path, keep, is_expendable=True)
        return [value for key, value in answer.pairs if key == "removed"]

    gone = []
    for host, answer in on_all(run.hosts, remove).items():
        if isinstance(answer, HostError):
            say(f"Old snapshots stay. {answer}")
        elif answer:
            gone.append(f"{host.name}: {', '.join(answer)}")
    if gone:
        say(f"Removed old snapshots that no run refers to. {'; '.join(gone)}")


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(re.sub(r"\D", "", match[1])) if match else 0


def rsync(ssh: Ssh, host: Host, words: list[str], stdin: bytes = b"") -> str:
    """Copy between here and a host, which is called ``host`` in ``words``; return rsync's output.

    Raises:
        HostError: If it fails.
        LaunchError: If rsync is missing here.
    """
    check_rsync()
    with tempfile.TemporaryDirectory(prefix="envlab-") as folder:
        shell = Path(folder, "ssh")
        shell.write_bytes(os.fsencode(f'shift\nexec {shlex.join(ssh.words(host))} "$@"\n'))
        # By content (-c), not by time: a checkout changes times.
        command = ["rsync", "-rlpc", "-s", "--timeout=60", f"--rsh=sh '{shell}'", *words]
        env = {**os.environ, "LC_ALL": "C"}
        try:
            code, out, err = converse(
                command, stdin, TRANSFER_TIMEOUT_S, is_expendable=True, env=env
            )
        except subprocess.TimeoutExpired:
            raise HostError(host, f"rsync took more than {TRANSFER_TIMEOUT_S:g} s.") from None
    if code == 0:
        return out.decode(errors="replace")
    said = err.decode(errors="replace")
    if "No space left" in said or "Disk quota exceeded" in said:
        raise HostError(host, _FULL)
    if "rsync: command not found" in said or "rsync: not found" in said:
        raise HostError(host, "has no rsync: install it (Debian, Ubuntu: apt install rsync).")
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["without a word"]
    raise TransferError(host, code, lines[0])
