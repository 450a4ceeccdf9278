"""docker/: copied files exist, steps are valid shell, and compose trains as the pages say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.launcher import ROOT, TRAIN

DOCKERFILE = ROOT / "docker/Dockerfile"
TARGETS = ("cpu", "cuda")
UNPRIVILEGED = "1000"


def read_stages() -> dict[str, list[tuple[str, str]]]:
    """Return the instructions of each stage: their names and arguments."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    found: dict[str, list[tuple[str, str]]] = {"": []}
    lines = text.replace("\\\n", "").splitlines()
    for name, _, rest in (line.partition(" ") for line in lines if line):
        if name == "FROM":
            found[rest.rpartition(" AS ")[2]] = []
        found[list(found)[-1]].append((name, rest.strip()))
    return found


STAGES = read_stages()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def arguments(stage: str, name: str, start: str = "") -> list[str]:
    """Return the arguments of a stage's instructions of one name, without their common start."""
    found = [rest for kind, rest in STAGES[stage] if kind == name and rest.startswith(start)]
    return [rest.removeprefix(start) for rest in found]


def compose(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker" / name).read_text())


def test_the_base_image_is_pinned_by_its_digest():
    (image,) = arguments("", "ARG", "PYTHON_IMAGE=")
    version = re.fullmatch(r"python:3\.(\d+)[\w.-]*@sha256:[0-9a-f]{64}", image)
    assert version is not None
    assert int(version[1]) >= int(PROJECT["requires-python"].removeprefix(">=3."))
    assert arguments("base", "FROM") == ["${PYTHON_IMAGE} AS base"]


def test_the_targets_install_in_the_same_way_and_do_not_run_as_root():
    assert list(STAGES) == ["", "base", *TARGETS]
    for name in ("RUN", "COPY"):
        assert arguments("cpu", name) == arguments("cuda", name)
    (made,) = [rest for rest in arguments("base", "RUN") if "useradd" in rest]
    assert f"--uid {UNPRIVILEGED} " in made
    assert "install -d -o envlab -g envlab /envlab /envlab/logs" in made
    for target in TARGETS:
        assert STAGES[target][-2] == ("USER", UNPRIVILEGED)


def test_every_package_is_installed_at_the_version_that_is_tested():
    for step in arguments("cpu", "RUN"):
        for command in re.findall(r"pip install[^&]*", step):
            assert "-c /opt/requirements/constraints.txt" in command or "--no-deps" in command


def test_its_extras_are_those_of_pyproject():
    for target in TARGETS:
        (extras,) = arguments(target, "ARG", "EXTRAS=")
        wanted = list(PROJECT["dependencies"])
        for extra in extras.split(","):
            wanted += PROJECT["optional-dependencies"][extra]
        assert requirements(extras).stdout.splitlines() == wanted


def requirements(extras: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, ROOT / "docker/requirements.py", extras]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def test_an_extra_may_name_others_and_an_unknown_one_is_refused():
    everything = requirements("dev").stdout.splitlines()
    assert not any(line.startswith("envlab[") for line in everything)
    assert {"onnx", "warp-lang", "pytest"} <= set(everything)
    assert len(set(everything)) == len(everything)
    refused = requirements("vidoe")
    assert refused.returncode == 1
    assert refused.stderr.startswith("There is no extra 'vidoe'; there are ")


def test_copied_files_exist_and_are_sent_to_the_engine():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    first, *rest = [line for line in lines if line and not line.startswith("#")]
    assert first == "*"
    allowed = {line[1:] for line in rest if line.startswith("!")}
    assert [name for name in allowed if not (ROOT / name).exists()] == []
    (copied,) = arguments("base", "COPY")
    needed = {*copied.split()[:-1], PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml"}
    assert needed | {"envlab", "source", "scripts", "constraints.txt"} <= allowed


STEPS = [(stage, step) for stage in ("base", *TARGETS) for step in arguments(stage, "RUN")]


def test_its_steps_are_shell():
    assert len(STEPS) >= 5
    for _, step in STEPS:
        done = subprocess.run(["sh", "-n", "-c", step], capture_output=True, text=True)
        assert done.returncode == 0, f"{step}\n{done.stderr}"


@pytest.mark.tools("shellcheck")
def test_shellcheck_finds_nothing_in_its_steps():
    text = "\n".join(["#!/bin/sh", 'TORCH_INDEX="$1"', 'EXTRAS="$2"', *(step for _, step in STEPS)])
    done = subprocess.run(["shellcheck", "-"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.tools("hadolint")
def test_hadolint_finds_nothing():
    done = subprocess.run(["hadolint", DOCKERFILE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def words_on_node(rank: int) -> list[str]:
    """Return a node's command from docs/distribute.md, with node0 as the meeting point."""
    page = (ROOT / "docs/distribute.md").read_text()
    lines = [line.split() for line in page.splitlines() if line.startswith("    python -m torch")]
    (found,) = [line for line in lines if {"--nnodes=2", f"--node_rank={rank}"} <= set(line)]
    words = " ".join(found).replace("--rdzv_id=$RDZV_ID", "--rdzv_id=123")  # their own network
    return re.sub(r"(--rdzv_endpoint=)(<[^>]*>|\S+?):", r"\1node0:", words).split()


def test_compose_starts_the_command_of_the_page():
    for rank in [0, 1]:
        service = compose("compose.yaml")["services"][f"node{rank}"]
        assert service["command"].split() == words_on_node(rank)
        assert service["hostname"] == f"node{rank}"
        assert str(TRAIN.relative_to(ROOT)) in service["command"].split()


def test_compose_builds_a_target_and_keeps_logs_where_the_image_has_them():
    content = compose("compose.yaml")
    for service in content["services"].values():
        build = service["build"]
        assert (ROOT / "docker" / build["context"]).resolve() == ROOT
        assert ROOT / build["dockerfile"] == DOCKERFILE
        assert build["target"] in TARGETS
        (volume,) = service["volumes"]
        name, _, folder = volume.partition(":")
        assert name in content["volumes"]
        assert folder == "/envlab/logs"
        assert (service["init"], service["stop_grace_period"]) == (True, "2m")
    changed = compose("compose.cuda.yaml")["services"]
    assert changed.keys() == content["services"].keys()
    assert {service["build"]["target"] for service in changed.values()} == {"cuda"}
    reserved = [service["deploy"]["resources"]["reservations"] for service in changed.values()]
    assert not set.intersection(*(set(one["devices"][0]["device_ids"]) for one in reserved))


@pytest.mark.tools("docker")
def test_docker_reads_the_compose_files():
    asked = subprocess.run(["docker", "compose", "version"], capture_output=True, text=True)
    if asked.returncode != 0:
        pytest.skip("needs docker compose: install Docker's compose plugin")
    files = [f"--file={ROOT}/docker/{name}" for name in ("compose.yaml", "compose.cuda.yaml")]
    done = subprocess.run(["docker", "compose", *files, "config"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_health_check_wants_a_heartbeat_of_the_last_minute(tmp_path: Path):
    kind, command = compose("compose.yaml")["services"]["node0"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"

    def health() -> int:
        return subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True).returncode

    heartbeats = tmp_path / "logs/rsl_rl/cartpole/2026-01-01/heartbeats.json"
    assert health() == 1
    heartbeats.parent.mkdir(parents=True)
    heartbeats.write_text("{}")
    assert health() == 0
    long_ago = time.time() - 120
    os.utime(heartbeats, (long_ago, long_ago))
    assert health() == 1
