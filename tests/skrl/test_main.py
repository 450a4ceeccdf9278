"""The choice between skrl's two frameworks, and messages of its commands."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envlab.skrl import main as skrl_main
from envlab.training.launch import train
from tests.launcher import ROOT
from tests.trained import manifest_of, only_run, session_of

TASK = "--task=Isaac-Cartpole-v0"


def test_the_composed_configuration_decides_which_adapter_is_loaded():
    pytest.importorskip("jax", reason="needs jax: pip install -e '.[jax]'")
    chosen = {
        (): "torch",
        ("--ml_framework=jax",): "jax",
        ("agent.ml_framework=jax",): "jax",
        ("--ml_framework=torch", "agent.ml_framework=jax"): "torch",
    }
    for words, framework in chosen.items():
        adapter = skrl_main.adapter_of(session_of("skrl", [TASK, *words]).agent_cfg, "learner")
        assert adapter.__name__ == f"envlab.skrl.{framework}.learner", words


def test_jax_that_is_not_installed_is_one_sentence(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    find = importlib.util.find_spec
    missing = ("jax", "flax", "optax")
    without = lambda name, *rest: None if name in missing else find(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", without)
    with contextlib.chdir(tmp_path):
        assert train("skrl", [TASK, "--ml_framework=jax"]) == 2
    sentence = "needs jax, flax, optax, which cannot be found. Install with: pip install"
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_pytorch_loads_no_jax():
    modules = "sys, envlab.skrl.torch.learner, envlab.skrl.torch.play"
    code = f"import {modules}; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60, check=True)


def test_an_algorithm_without_an_agent_file_says_that_it_uses_defaults(tmp_path: Path, capsys: Any):
    flags = [TASK, "--device=cpu", "--num_envs=4", "--algorithm=a2c", "--max_iterations=1"]
    with contextlib.chdir(tmp_path):
        assert train("skrl", flags) == 0
    printed = capsys.readouterr()
    assert "has no skrl_a2c configuration; using the defaults." in printed.err
    assert "--algorithm=a2c" in printed.out  # of the command that plays it
    run_directory = only_run(tmp_path)
    assert run_directory.parent.name == "isaac_cartpole"
    assert run_directory.name.endswith("_a2c_torch")
    assert manifest_of(run_directory)["algorithm"] == "a2c"
