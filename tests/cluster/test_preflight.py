"""The conclusions from the facts that hosts report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envlab.errors import EnvlabError, LaunchError
from envlab_cluster.hosts import Host
from envlab_cluster.preflight import Facts, address_for_others, check_versions
from envlab_cluster.ssh import MARKER, Ssh, explain_failure

A, B, C = (Host(name=name, address=name) for name in "abc")


def facts(**changes: Any) -> Facts:
    values = {
        **{"path": "/p", "activate": "/p/venv/bin/activate", "hostname": "h", "python": "3.11.7"},
        **{"packages": {"torch": "2.13.0", "numpy": "2.4.6"}, "num_gpus": 0, "port": 29400},
        **{"client": "", "server": ""},
    }
    return Facts(**{**values, **changes})


def test_the_odd_one_out_is_named():
    check_versions({A: facts(), B: facts(python="3.11.2")})
    odd = {"torch": "2.12.0", "numpy": "2.4.6"}
    with pytest.raises(LaunchError) as error:
        check_versions({A: facts(), B: facts(packages=odd, python="3.12.1"), C: facts()})
    wanted = "host b has python 3.12, torch 2.12.0 where others have python 3.11, torch 2.13.0."
    assert wanted in str(error.value)
    assert "host a" not in str(error.value)


def test_a_host_without_torch_is_named():
    with pytest.raises(EnvlabError, match="Host b: the environment /p/venv/bin/activate has no"):
        check_versions({A: facts(), B: facts(packages={})})


def test_the_nodes_meet_where_others_reach_the_first():
    for server, client, address in (
        ("10.0.0.1", "10.0.0.9", "10.0.0.1"),
        # The first host is this machine: it is where the others' connections come from.
        ("127.0.0.1", "10.0.0.9", "10.0.0.9"),
        ("::1", "10.0.0.9", "10.0.0.9"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("2001:db8::1", "10.0.0.9", "2001:db8::1"),
    ):
        first = facts(server=server, client=server)
        found = {A: first, B: facts(server="10.0.0.2", client=client)}
        assert address_for_others(found, A) == address
    clients = {A: "::1", B: "2001:db8::9", C: "10.0.0.9"}  # by IPv4 where others see it so
    found = {host: facts(server="::1", client=client) for host, client in clients.items()}
    assert address_for_others(found, A) == "10.0.0.9"


def test_errors_of_ssh_are_explained():
    for said, meaning in (
        ("ssh: Could not resolve hostname a: Name or service not known", "cannot be resolved"),
        ("ssh: connect to host a port 22: Connection timed out", "does not answer"),
        ("ssh: connect to host a port 22: No route to host", "no network reaches it"),
        (
            "@@@\nWARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.",
            "its host key has changed",
        ),
        ("a: Permission denied (publickey,password).", "it refuses the key"),
        ("Timeout, server a not responding.", "the connection was lost"),
        ("something new", "ssh failed (ssh: something new)"),
        ("", "the connection was lost (ssh printed no reason)"),
        (
            "ssh: Could not resolve hostname jump: No address\nConnection closed by remote host",
            "cannot be resolved: see the spelling, or give an IP address (ssh: Could not resolve "
            "hostname jump: No address)",
        ),
    ):
        assert meaning in explain_failure(said + "\n", A, Ssh())


def test_options_are_given_before_the_host_and_the_users_own_come_first():
    host = Host(name="a", address="a", user="me", port=2222, key="/k")
    words = Ssh("ssh -f -o ConnectTimeout=1 {addr}").words(host)
    assert words[:3] == ["ssh", "-o", "ConnectTimeout=1"]
    assert words[-1] == "me@a"
    assert words[words.index("-p") + 1] == "2222"
    assert words[words.index("-i") + 1] == "/k"
    assert Ssh("env ssh {addr} -v").words(host) == ["env", "ssh", "me@a", "-v"]


def test_words_arrive_byte_for_byte(tmp_path: Path):
    shell = tmp_path / "login"
    shell.write_text("#!/bin/sh\nexec $2\n")
    shell.chmod(0o755)
    text = f"printf '%s' '{MARKER}caf\udce9 é'"  # as Python has a byte of a path that is no UTF-8
    code, out, _ = Ssh(f"{shell} {{addr}}").feed(A, text, 60.0)
    assert (code, out) == (0, "caf\udce9 é")
