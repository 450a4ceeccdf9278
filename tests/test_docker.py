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


def stages() -> dict[str, list[tuple[str, str]]]:
    """Return the instructions of each stage: their names and arguments."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    found: dict[str, list[tuple[str, str]]] = {"": []}
    lines = text.replace("\\\n", "").splitlines()
    for name, _, rest in (line.partition(" ") for line in lines if line):
        if name == "FROM":
            found[rest.rpartition(" AS ")[2]] = []
        found[list(found)[-1]].append((name, rest.strip()))
    return found


def arguments(stage: str, name: str) -> list[str]:
    return [rest for kind, rest in stages()[stage] if kind == name]


def compose(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker" / name).read_text())


def ignored() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_there_is_a_stage_for_each_target():
    assert list(stages()) == ["", "base", *TARGETS]


def test_the_base_image_is_pinned_by_its_digest():
    (image,) = [rest for rest in arguments("", "ARG") if rest.startswith("PYTHON_IMAGE=")]
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+[\w.-]*@sha256:[0-9a-f]{64}", image)
    (minimum,) = re.findall(
        r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text()
    )
    assert int(image.partition(":3.")[2].split("-")[0].split(".")[0]) >= int(minimum)
    assert arguments("base", "FROM") == ["${PYTHON_IMAGE} AS base"]


def test_a_target_does_not_run_as_root():
    for target in TARGETS:
        assert stages()[target][-2] == ("USER", UNPRIVILEGED)
        (made,) = [rest for rest in arguments("base", "RUN") if "useradd" in rest]
        assert f"--uid {UNPRIVILEGED} " in made
        assert "install -d -o envlab -g envlab /envlab /envlab/logs" in made


def test_the_targets_install_in_the_same_way():
    assert arguments("cpu", "RUN") == arguments("cuda", "RUN")
    assert arguments("cpu", "COPY") == arguments("cuda", "COPY")


def test_every_package_is_installed_at_the_version_that_is_tested():
    for target in TARGETS:
        for step in arguments(target, "RUN"):
            for command in re.findall(r"pip install[^&]*", step):
                assert "-c /opt/requirements/constraints.txt" in command or "--no-deps" in command


def test_its_extras_are_those_of_pyproject():
    for target in TARGETS:
        (extras,) = [rest for rest in arguments(target, "ARG") if rest.startswith("EXTRAS=")]
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        printed = requirements(extras.removeprefix("EXTRAS=")).stdout.splitlines()
        wanted = list(project["dependencies"])
        for extra in extras.removeprefix("EXTRAS=").split(","):
            wanted += project["optional-dependencies"][extra]
        assert printed == wanted


def requirements(extras: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "docker/requirements.py"
    return subprocess.run(
        [sys.executable, script, extras], capture_output=True, text=True, timeout=60
    )


def test_an_extra_may_name_others_and_an_unknown_one_is_refused():
    everything = requirements("dev").stdout.splitlines()
    assert not any(line.startswith("envlab[") for line in everything)
    assert {"onnx", "warp-lang", "pytest"} <= set(everything)
    assert len(set(everything)) == len(everything)
    refused = requirements("vidoe")
    assert refused.returncode == 1
    assert refused.stderr.startswith("There is no extra 'vidoe'; there are ")


def test_copied_files_exist_and_are_sent_to_the_engine():
    allowed = {line[1:] for line in ignored() if line.startswith("!")}
    assert ignored()[0] == "*"
    for name in allowed:
        assert (ROOT / name).exists(), name
    (single,) = arguments("base", "COPY")
    for word in single.split()[:-1]:
        assert (ROOT / word).is_file()
        assert word in allowed
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"}
    needed |= {"envlab", "source", "scripts", "constraints.txt"}
    assert needed <= allowed


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
    page_words = " ".join(found)
    page_words = page_words.replace("--rdzv_id=$RDZV_ID", "--rdzv_id=123")  # a network of their own
    return re.sub(
        r"--rdzv_endpoint=(<[^>]*>|\S+?):(\d+)", r"--rdzv_endpoint=node0:\2", page_words
    ).split()


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
    devices = [
        set(service["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"])
        for service in changed.values()
    ]
    assert not set.intersection(*devices)


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
