"""Packages of peers, installed from PyPI for a test alone, without what they depend on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.launcher import ROOT

INSTALLING_S = 240.0


def install(folder: Path, *requirements: str) -> None:
    """Install packages into a folder; skip the test where PyPI cannot be reached."""
    names = ", ".join(requirements)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--retries=1"]
    words = [*pip, f"--constraint={ROOT / 'constraints.txt'}", f"--target={folder}", *requirements]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALLING_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"PyPI had not given {names} after {INSTALLING_S:.0f} s")
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        pytest.skip(f"pip cannot install {names}: {errors[-1:]}")
