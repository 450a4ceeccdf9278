"""Hosts from ``--runs_on`` and from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from envlab.errors import ConfigurationError
from envlab_cluster.hosts import Host, choose_hosts
from tests.refusals import check_refusals

FILE = """
user: me
path: /data
hosts:
  - {name: big, address: 10.0.0.1, port: 2222, key: ~/.ssh/id, slots: 4}
  - {address: small, user: you, path: ~/x}
  - plain
"""


def test_a_list_may_have_users_and_ports():
    hosts = choose_hosts("a,me@b, me@10.0.0.3:2222,[fe80::1]:22", None)
    assert [(host.target, host.port) for host in hosts] == [
        *(("a", None), ("me@b", None), ("me@10.0.0.3", 2222), ("fe80::1", 22))
    ]


def test_a_file_has_defaults_that_a_host_may_change(tmp_path: Path):
    file = tmp_path / "hosts.yaml"
    file.write_text(FILE)
    key = "~/.ssh/id"
    assert choose_hosts(None, str(file)) == [
        Host(name="big", address="10.0.0.1", user="me", port=2222, key=key, slots=4, path="/data"),
        Host(name="small", address="small", user="you", path="~/x"),
        Host(name="plain", address="plain", user="me", path="/data"),
    ]
    (one,) = choose_hosts("small", str(file), path="/other", activate="/venv/bin/activate")
    assert (one.path, one.env_activate_path) == ("/other", "/venv/bin/activate")


def test_wrong_files_and_lists_are_one_sentence(tmp_path: Path):
    file = tmp_path / "hosts.yaml"

    def read(text: str, names: str | None = None) -> None:
        file.write_text(text)
        choose_hosts(names, str(file))

    check_refusals(
        read,
        [
            ("hosts: []", "names no hosts"),
            ("hosts: [{nme: a}]", "there is no key 'nme'; there are name, .* Did you mean name"),
            ("hosts: [{name: a, port: x}]", "host a: port is 'x', but must be a number above 0"),
            ("hosts: [{name: a, slots: 0}]", "slots is 0, but must be a number above 0"),
            ("hosts: [{user: a}]", "has neither a name nor an address"),
            ("hosts: [a, a]", "The host 'a' is named 2 times"),
            ('hosts: [{name: a, path: "a\\nb"}]', "host a: path is .* must be without line breaks"),
            ("hosts: [3]", "host 1 is 3, but must be a mapping"),
            ("name: a\nhosts: [a]", "there is no key 'name'"),
            ("hosts: [{name: a, port: 70000}]", "port is 70000, but must be from 1 to 65535"),
            (FILE, "bug", "--runs_on names 'bug'.* Did you mean big"),
        ],
    )
    check_refusals(
        lambda names, changes: choose_hosts(names, None, **changes),
        [
            ("a", {"path": "a\nb"}, r"path is 'a\\nb', but must be without line"),
            ("a", {"activate": "a\nb"}, r"path is 'a\\nb', but must be without line"),
            ("a:70000", {}, "'a:70000': its port is 70000, but must be from"),
        ],
    )


def test_the_file_in_the_current_folder_is_meant_where_its_names_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "hosts.yaml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    assert [host.name for host in choose_hosts(None, None)] == ["big", "small", "plain"]
    assert [host.address for host in choose_hosts("big", None)] == ["10.0.0.1"]
    assert [host.address for host in choose_hosts("10.0.0.9,me@other", None)] == [
        *("10.0.0.9", "other")
    ]
    with pytest.raises(ConfigurationError, match=r"--runs_on names 'other', but hosts.yaml has"):
        choose_hosts("big,other", None)


def test_another_programs_file_is_ignored_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.chdir(tmp_path)
    for text in ("all:\n  hosts:\n    web:\n", "- hosts: all\n", "{{ jinja }}: [\n"):
        (tmp_path / "hosts.yaml").write_text(text)
        assert [host.address for host in choose_hosts("a,b", None)] == ["a", "b"]
        warning = capsys.readouterr().err
        assert warning.startswith("warning: hosts.yaml here is not used: hosts.yaml ")
        assert warning.count("\n") == 1
        with pytest.raises(ConfigurationError):
            choose_hosts(None, None)
