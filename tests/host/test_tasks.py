"""``gym:<id>`` finds Gymnasium's environments, and reports errors in a sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

from envlab.errors import ConfigurationError, UnknownTaskError
from envlab.registry import get_task, load_env_cfg


def test_ids_that_lead_elsewhere_are_refused():
    with pytest.raises(UnknownTaskError, match=r"own task. Write --task=Isaac-Cartpole-v0"):
        get_task("gym:Isaac-Cartpole-v0")
    with pytest.raises(UnknownTaskError, match="module 'nowhere', which cannot be imported"):
        get_task("gym:nowhere:X-v0")


def test_finding_a_task_loads_neither_torch_nor_a_simulator():
    script = """
import sys
from envlab.registry import get_task
assert get_task("gym:LunarLander-v3").id == "gym:LunarLander-v3"
heavy = {"torch", "mujoco", "Box2D"} & set(sys.modules)
assert not heavy, heavy
import envlab.host.worker
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=60)
    assert done.returncode == 0


def test_a_missing_package_names_the_install_line(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    with pytest.raises(ConfigurationError, match=r"LunarLander-v3 needs .*Box2D.* -e '.\[gym\]'"):
        load_env_cfg(get_task("gym:LunarLander-v3"))
