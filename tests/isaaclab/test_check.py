"""What ``envlab isaaclab check`` says of a project: what its tasks reach, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from envlab_isaaclab import check

PROJECT = Path(__file__).parent / "project"
ROBOTS = """
import isaaclab.sim as sim_utils
from typing import TYPE_CHECKING
from isaaclab.markers import VisualizationMarkersCfg

if TYPE_CHECKING:
    from omni.isaac.lab.envs import ManagerBasedEnv

def dog():
    return sim_utils.UsdFileCfg(usd_path=f"{ROOT}/own/dog.usd")

CAT = sim_utils.UsdFileCfg(usd_path=f"{ROOT}/own/cat.usd")
BIG_CAT = CAT.copy()
BIRD = sim_utils.UsdFileCfg(usd_path="own/bird.usd")
BIRD.scale = sim_utils.ConeCfg(radius=1.0)
ARROW = VisualizationMarkersCfg(
    markers={"a": sim_utils.ConeCfg(), "b": sim_utils.UsdFileCfg(usd_path="own/arrow.usd")}
)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The tests' own project, with robots in a module that its task does not use."""
    copied = Path(shutil.copytree(PROJECT, tmp_path / "project"))
    package(copied).joinpath("robots.py").write_text(ROBOTS, encoding="utf-8")
    return copied


def package(folder: Path) -> Path:
    return folder / "source/small_walker/small_walker"


def add(folder: Path, *lines: str) -> None:
    """Add lines to the module of the task's configuration, those of classes at their end."""
    file = package(folder) / "walker_env_cfg.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "".join(f"\n{line}" for line in lines), encoding="utf-8")


def names(folder: Path) -> tuple[list[str], list[str]]:
    found = check.uses_in(folder)
    return [use.name for use in found.uses], [use.name for use in found.elsewhere]


def test_a_robot_that_no_task_has_is_counted_apart(project, capsys):
    assert names(project) == ([], ["/own/dog.usd", "/own/cat.usd", "own/bird.usd", "ConeCfg"])
    assert check.main(["check", str(project)]) == 0
    shown = capsys.readouterr().out
    assert "Missing: nothing." in shown
    assert "in 1 files such as source/small_walker/small_walker/robots.py" in shown


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        (["from small_walker.robots import BIG_CAT", "{} = BIG_CAT"], ["/own/cat.usd"]),
        (["from . import robots", "{} = robots.dog()"], ["/own/dog.usd"]),
        (["from .robots import *", "{}: Any = BIRD"], ["own/bird.usd", "ConeCfg"]),
        (["import small_walker.robots", "{} = small_walker.robots.CAT"], ["/own/cat.usd"]),
        (["{} = 'small_walker.robots:dog'"], ["/own/dog.usd"]),
        (["from .robots import ARROW", "{} = ARROW"], []),
        (
            ["from source.small_walker.small_walker.robots import CAT", "{} = CAT"],
            ["/own/cat.usd"],
        ),
    ],
)
def test_what_a_tasks_configuration_leads_to_is_missing(project, lines, missing):
    place = "WalkerEnvCfg.added"
    add(project, *(line.format(place) for line in lines))
    assert names(project)[0] == missing


def test_what_an_import_runs_counts(project):
    package(project).joinpath("robots.py").write_text(
        "from omni.isaac.lab.sim import A\nimport omni.isaac.lab.b\n"
    )
    add(project, "def never():", "    from .robots import A")
    assert names(project) == ([], ["omni.isaac.lab.sim"])
    add(project, "from . import robots")
    found = check.uses_in(project).uses
    assert [(use.line, use.name) for use in found] == [(1, "omni.isaac.lab.sim")]
    assert "one of 2 imports of Isaac Lab 1" in found[0].remark
