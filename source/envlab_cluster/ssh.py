"""Scripts on hosts, by the system's OpenSSH: its configuration, agents and jump hosts just work.

A script goes to ``bash -s`` over standard input, with its arguments quoted once by :mod:`shlex` in
its first line, so that no word passes through a second shell, and any login shell works.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from typing import TypeVar

from envlab.child import kill_group
from envlab.errors import ConfigurationError, EnvlabError
from envlab_cluster.hosts import Host

SSH_CMD = "ssh {addr}"
CONNECT_TIMEOUT_S = 10
TIMEOUT_S = 60.0
MARKER = "\n--envlab--\n"
"""Printed by ``remote/common.sh``; output before it may be a login shell's greeting."""

_REFUSED = 3
"""Exit code of ``fail`` in ``remote/common.sh``, which prints one sentence."""
_SSH_FAILED = 255
_MAX_AT_ONCE = 32
Result = TypeVar("Result")
_expendable: set[subprocess.Popen[bytes]] = set()
"""Processes that Ctrl-C may end immediately, since they leave nothing half done."""


class HostError(EnvlabError):
    """A host cannot do what was requested; the message names it."""

    def __init__(self, host: Host, sentence: str) -> None:
        super().__init__(f"Host {host.name}: {sentence}")
        self.host, self.sentence = host, sentence


class UnreachableError(HostError):
    """ssh cannot log in, or lost the connection."""


@dataclass(frozen=True)
class Answer:
    """Output of a script on a host: ``key=value`` lines, and after ``log=`` the end of a log."""

    text: str

    @functools.cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """Return all its ``key=value`` lines."""
        split = (line.partition("=") for line in self.text.splitlines())
        return [(key, value) for key, is_pair, value in split if is_pair]

    @functools.cached_property
    def values(self) -> dict[str, str]:
        """Return the first value of each key; a log's contents come after them."""
        return dict(reversed(self.pairs))

    @property
    def exit_code(self) -> int | None:
        """Return the exit code in it, None if there is none."""
        code = self.values.get("code", "")
        return int(code) if code.lstrip("-").isdigit() else None

    @property
    def indented_log(self) -> str:
        """Return the quoted end of the log, indented for use below a sentence."""
        return textwrap.indent(self.text.partition("log=\n")[2].rstrip("\n"), "  ")


@functools.cache
def remote_text(name: str) -> str:
    """Return a file of ``source/envlab_cluster/remote/``."""
    return resources.files("envlab_cluster").joinpath("remote", name).read_text(encoding="utf-8")


def compose_script(name: str, arguments: Sequence[object]) -> str:
    """Return the text that runs a script of ``remote/`` with arguments."""
    words = shlex.join(str(argument) for argument in arguments)
    return f"set -- {words}\n{remote_text('common.sh')}\n{remote_text(name)}"


@dataclass(frozen=True)
class Ssh:
    """The command that reaches hosts, and its timeout."""

    command: str = SSH_CMD
    """The command that logs in, with ``{addr}`` for ``user@address``."""
    connect_timeout_s: int = CONNECT_TIMEOUT_S

    def __post_init__(self) -> None:
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ConfigurationError(f"--ssh_cmd is {self.command!r}: {error}.") from error
        if sum("{addr}" in word for word in words) != 1 or "{addr}" in words[0]:
            raise ConfigurationError(
                f"--ssh_cmd is {self.command!r}, but must be a command with {{addr}} once, as in "
                "'ssh -J gateway {addr}'."
            )

    def check_here(self) -> None:
        """Check that the command exists on this machine; a dry run does without it.

        Raises:
            ConfigurationError: If it does not.
        """
        program = shlex.split(self.command)[0]
        if shutil.which(program) is None:
            raise ConfigurationError(
                f"There is no command {program!r} here: install OpenSSH's client (Debian, "
                "Ubuntu: apt install openssh-client), or name another command by --ssh_cmd."
            )

    def words(self, host: Host) -> list[str]:
        """Return the command that logs in at a host; the remote command is appended to it."""
        words = shlex.split(self.command)
        place = next(index for index, word in enumerate(words) if "{addr}" in word)
        words[place] = words[place].replace("{addr}", host.target)
        if os.path.basename(words[0]) != "ssh":
            return words
        options = ["-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={self.connect_timeout_s}"]
        options += ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
        options += ["-o", "LogLevel=ERROR"]
        if host.port is not None:
            options += ["-p", str(host.port)]
        if host.key:
            options += ["-i", os.path.expanduser(host.key), "-o", "IdentitiesOnly=yes"]
        # ssh takes the first value of an option: so the user's own come first. -f and -n would take
        # the standard input away.
        given = [word for word in words[:place] if word not in ("-f", "-n")]
        return [*given, *options, *words[place:]]

    def run(
        self,
        host: Host,
        script: str,
        *arguments: object,
        timeout_s: float = TIMEOUT_S,
        is_expendable: bool = False,
    ) -> Answer:
        """Run a script of ``remote/`` on a host.

        Args:
            host: The host.
            script: Its file name.
            *arguments: The script's ``$@``.
            timeout_s: Limit of its time.
            is_expendable: Whether Ctrl-C need not wait for it.

        Raises:
            UnreachableError: If ssh cannot log in.
            HostError: If the script refuses, fails, or takes too long.
        """
        text = compose_script(script, arguments)
        code, said, err = self.feed(host, text, timeout_s, is_expendable=is_expendable)
        if code == 0:
            return Answer(said)
        if code == _SSH_FAILED:
            raise UnreachableError(host, explain_failure(err, host, self))
        last = (err.strip().splitlines() or [f"{script} ended with code {code}"])[-1].strip()
        raise HostError(host, last if code == _REFUSED else f"{last}.")

    def feed(
        self, host: Host, text: str, timeout_s: float, *, is_expendable: bool = False
    ) -> tuple[int, str, str]:
        """Return exit code, output and errors of bash on a host, which reads ``text``.

        Raises:
            UnreachableError: If ssh cannot log in.
            HostError: If there is no bash, or it takes too long.
        """
        self.check_here()
        words = self.words(host)
        try:
            code, *said = converse(
                [*words, "bash -s"],
                text.encode(errors="surrogateescape"),
                timeout_s,
                is_expendable=is_expendable,
            )
        except subprocess.TimeoutExpired:
            raise HostError(host, f"no answer within {timeout_s:g} s.") from None
        out, err = (one.decode(errors="surrogateescape") for one in said)
        greeting, is_marked, answer = out.partition(MARKER)
        if is_marked:
            return code, answer, err
        if code == _SSH_FAILED:
            raise UnreachableError(host, explain_failure(err, host, self))
        last = err.strip().splitlines()[-1] if err.strip() else greeting.strip()[-200:]
        raise HostError(
            host,
            f"its shell cannot run bash ({last.strip()}): install bash on it, and check that "
            f"`{shlex.join(words)} bash -c true` works.",
        )

    def stream(self, host: Host, script: str, *arguments: object) -> subprocess.Popen[bytes]:
        """Start a script of ``remote/`` on a host, and return its process to be read from."""
        self.check_here()
        process = _start([*self.words(host), "bash -s"])
        assert process.stdin is not None
        try:
            process.stdin.write(compose_script(script, arguments).encode(errors="surrogateescape"))
            process.stdin.close()
        except BrokenPipeError:  # ssh has ended already; its exit code says why
            process.stdin = None
        return process


_NO_ANSWER = "it does not answer: check that it is up, and reachable from here"
_NO_NETWORK = "no network reaches it: check that it is up, and reachable from here"
_CAUSES = {
    "Could not resolve hostname": "its name cannot be resolved: see the spelling, or give an IP "
    "address",
    "REMOTE HOST IDENTIFICATION HAS CHANGED": "its host key has changed: if the machine was "
    "reinstalled, remove the old key by ssh-keygen -R",
    "Host key verification failed": "its host key is not known here: log in once by hand, "
    "{command}, and accept it",
    "bad permissions": "the key's file may be read by others: chmod 600",
    "not accessible": "the key's file cannot be read: see `key` and -i",
    "Permission denied": "it refuses the key: put your public key into ~/.ssh/authorized_keys "
    "there (ssh-copy-id), or name the right key and user",
    "Connection refused": "nothing listens at its ssh port: start its ssh server, or give its port",
    "timed out": _NO_ANSWER,
    "No route to host": _NO_NETWORK,
    "Network is unreachable": _NO_NETWORK,
    "not responding": "the connection was lost",
    "closed by": "it closed the connection: see its ssh server's log",
}
"""ssh's messages, and their meanings; the first match counts."""


def explain_failure(err: str, host: Host, ssh: Ssh) -> str:
    """Return a sentence on ssh's error output after exit code 255."""
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    if not lines:
        return "the connection was lost (ssh printed no reason)."
    sign = next((sign for sign in _CAUSES if sign in err), "")
    cause = _CAUSES.get(sign, "ssh failed")
    line = next((line for line in reversed(lines) if sign in line), lines[-1])
    said = line.removeprefix("ssh: ").rstrip(".")
    command = ssh.command.replace("{addr}", host.target)
    port = "" if host.port is None else f" -p {host.port}"
    return f"{cause.replace('{command}', command + port)} (ssh: {said})."


def on_all(
    hosts: Iterable[Host], function: Callable[[Host], Result]
) -> dict[Host, Result | HostError]:
    """Return ``function(host)`` for all hosts, called in parallel; errors replace results."""

    def attempt(host: Host) -> Result | HostError:
        try:
            return function(host)
        except HostError as error:
            return error

    every = list(hosts)
    with ThreadPoolExecutor(min(_MAX_AT_ONCE, max(1, len(every)))) as pool:
        try:
            return dict(zip(every, pool.map(attempt, every), strict=True))
        except BaseException:
            for process in list(_expendable):
                kill_group(process)
            raise


def converse(
    words: Sequence[str],
    text: bytes,
    timeout_s: float,
    *,
    is_expendable: bool,
    env: Mapping[str, str] | None = None,
) -> tuple[int, bytes, bytes]:
    """Run a command that reads ``text``; return its exit code, output and errors; leave no process.

    Args:
        words: The command.
        text: Its standard input.
        timeout_s: Limit of its time.
        is_expendable: Whether Ctrl-C ends it, rather than wait for it.
        env: Its environment, if not this one.

    Raises:
        subprocess.TimeoutExpired: If it takes longer.
    """
    process = _start(words, env)
    if is_expendable:
        _expendable.add(process)
    try:
        out, err = process.communicate(text, timeout=timeout_s)
        return process.returncode, out, err
    finally:
        _expendable.discard(process)
        if process.poll() is None:
            kill_group(process)
            process.communicate()


def _start(words: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a command with pipes, in its own session: Ctrl-C goes to this program, not to ssh."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, env=env
    )


def results_of(answers: dict[Host, Result | HostError]) -> dict[Host, Result]:
    """Return the results, if all hosts gave one.

    Raises:
        EnvlabError: With a line for each host that did not.
    """
    errors = [answer for answer in answers.values() if isinstance(answer, HostError)]
    if errors:
        raise errors[0] if len(errors) == 1 else EnvlabError("\n".join(map(str, errors)))
    return {host: one for host, one in answers.items() if not isinstance(one, HostError)}
