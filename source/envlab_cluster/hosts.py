"""The machines of a cluster: from ``--runs_on a,b``, or from a file ``hosts.yaml``."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from envlab.config import load_yaml
from envlab.errors import ConfigurationError, did_you_mean

HOSTS_FILE = "hosts.yaml"
"""Read from the current folder if neither ``--runs_on`` nor ``--hosts`` is given."""
DEFAULT_PATH = "envlab-cluster"

_ENTRY = re.compile(
    r"^(?:(?P<user>[^@\s]+)@)?(?P<address>\[[0-9a-fA-F:.%]+\]|[^:@\s]+)(?::(?P<port>\d+))?$"
)


@dataclass(frozen=True, kw_only=True)
class Host:
    """A machine that ssh reaches."""

    name: str
    """Its name in tables and messages; unique."""
    address: str
    """The address for ssh: a name that DNS or ~/.ssh/config knows, or an IP address."""
    user: str = ""
    port: int | None = None
    key: str = ""
    """File of the private key; empty: ssh's own choice."""
    slots: int | None = None
    """Processes to start on it; None: one per GPU, one without GPUs."""
    path: str = DEFAULT_PATH
    """The host's folder for snapshots, runs and logs; relative to the home folder."""
    env_activate_path: str = ""
    """Script there that activates the Python environment; empty: the one of ``setup``."""

    @property
    def target(self) -> str:
        """Return ``user@address`` for ssh."""
        return f"{self.user}@{self.address}" if self.user else self.address


_TYPES = {field.name: int if "int" in str(field.type) else str for field in fields(Host)}
"""The keys of a host in a file."""


def choose_hosts(
    runs_on: str | None, file: str | None, *, path: str | None = None, activate: str | None = None
) -> list[Host]:
    """Return the hosts that the flags name.

    Args:
        runs_on: ``a,b`` or ``user@a:2222,b``; with a file, names in it.
        file: A ``hosts.yaml``; None: the one in the current folder, if there is one and ``runs_on``
            is not given or names hosts in it. With ``runs_on``, an unreadable file, such as another
            program's, is ignored with a warning.
        path: Replaces every host's path.
        activate: Replaces every host's ``env_activate_path``.

    Raises:
        ConfigurationError: If there are none, or a name, port or key is wrong.
    """
    is_here = file is None and Path(HOSTS_FILE).is_file()
    if is_here and (runs_on is None or _is_named_here(_words(runs_on))):
        file = HOSTS_FILE
    if file is not None:
        hosts = _select(read_hosts(Path(file)), runs_on, file)
    elif runs_on is not None:
        hosts = [_parse_entry(word) for word in _words(runs_on)]
    else:
        raise ConfigurationError(
            f"No hosts are named: give --runs_on HOST,HOST or --hosts FILE, or write {HOSTS_FILE} "
            "in the current folder."
        )
    _check_distinct(hosts)
    _check_path(path, "--envlab_path")
    _check_path(activate, "--env_activate_path")
    return [
        replace(
            host,
            path=host.path if path is None else path,
            env_activate_path=host.env_activate_path if activate is None else activate,
        )
        for host in hosts
    ]


def read_hosts(file: Path) -> list[Host]:
    """Return the hosts of a ``hosts.yaml``: a list ``hosts``, and defaults for all next to it.

    Raises:
        ConfigurationError: If it cannot be read, or holds a key or value that makes no sense.
    """
    content = load_yaml(file)
    entries = content.pop("hosts", None)
    if not isinstance(entries, list) or not entries:
        raise ConfigurationError(
            f"{file} names no hosts: write a list under 'hosts:', with a name or an address each."
        )
    _check_keys(content, f"{file}", forbidden=("name", "address"))
    hosts = []
    for number, entry in enumerate(entries, 1):
        values = {"name": entry} if isinstance(entry, str) else entry
        if not isinstance(values, dict):
            raise ConfigurationError(f"{file}: host {number} is {entry!r}, but must be a mapping.")
        where = f"{file}: host {values.get('name', number)}"
        _check_keys(values, where)
        name = values.get("name", values.get("address"))
        if name is None:
            raise ConfigurationError(f"{where} has neither a name nor an address: give one.")
        hosts.append(Host(**{**content, "address": name, **values, "name": name}))
    return hosts


def _is_named_here(names: Sequence[str]) -> bool:
    """Return whether the file in the current folder has a host of these names."""
    try:
        return not {host.name for host in read_hosts(Path(HOSTS_FILE))}.isdisjoint(names)
    except ConfigurationError as error:
        print(f"warning: {HOSTS_FILE} here is not used: {error}", file=sys.stderr)
        return False


def _check_keys(values: dict[str, Any], where: str, forbidden: Sequence[str] = ()) -> None:
    known = [key for key in _TYPES if key not in forbidden]
    for key, value in values.items():
        if key not in known:
            raise ConfigurationError(
                f"{where}: there is no key {key!r}; there are {', '.join(known)}."
                f"{did_you_mean(str(key), known)}"
            )
        if not isinstance(value, _TYPES[key]) or isinstance(value, bool) or value in ("", 0):
            kind = "a number above 0" if _TYPES[key] is int else "text"
            raise ConfigurationError(f"{where}: {key} is {value!r}, but must be {kind}.")
        if isinstance(value, str):
            _check_path(value, f"{where}: {key}")
        if key == "port" and isinstance(value, int):
            _check_port(value, f"{where}: port")


def _select(hosts: list[Host], runs_on: str | None, file: str) -> list[Host]:
    if runs_on is None:
        return hosts
    by_name = {host.name: host for host in hosts}
    for name in _words(runs_on):
        if name not in by_name:
            raise ConfigurationError(
                f"--runs_on names {name!r}, but {file} has {', '.join(by_name)}."
                f"{did_you_mean(name, by_name)}"
            )
    return [by_name[name] for name in _words(runs_on)]


def _words(runs_on: str) -> list[str]:
    return [word.strip() for word in runs_on.split(",")]


def _parse_entry(word: str) -> Host:
    match = _ENTRY.match(word)
    if match is None or word.startswith("-"):
        raise ConfigurationError(
            f"--runs_on has {word!r}, which is not a host: give HOST, USER@HOST or USER@HOST:PORT, "
            "separated by commas."
        )
    port = None if match["port"] is None else int(match["port"])
    if port is not None:
        _check_port(port, f"--runs_on has {word!r}: its port")
    address = match["address"].strip("[]")
    return Host(name=word, address=address, user=match["user"] or "", port=port)


def _check_port(port: int, what: str) -> None:
    if not 0 < port <= 65535:
        raise ConfigurationError(f"{what} is {port}, but must be from 1 to 65535.")


def _check_path(path: str | None, what: str) -> None:
    """Refuse line breaks and the like: the hosts' answers about it are read line by line."""
    if path is not None and not path.isprintable():
        raise ConfigurationError(
            f"{what} is {path!r}, but must be without line breaks and other control characters."
        )


def _check_distinct(hosts: list[Host]) -> None:
    names = [host.name for host in hosts]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"The host {name!r} is named {names.count(name)} times: name each host once, and "
                "give it several processes by --nproc_per_node or slots."
            )
