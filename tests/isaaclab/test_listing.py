"""``envlab list --isaaclab``: ids, and what each needs, known without a simulation."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
from gymnasium.envs.registration import EnvSpec

from envlab_isaaclab.spawn_files import has_model
from envlab_isaaclab.tasks import own_tasks, told
from tests.launcher import run


def listed(place: Path, folder: str, *keywords: str) -> list[list[str]]:
    """Return the words of each line of lists of a folder's tasks, one for each keyword."""
    script = Path(__file__).with_name("worker_listing.py")
    code, output = run([sys.executable, script, folder, *keywords], place)
    assert code == 0, output[-3000:]
    return [line.split() for line in output.splitlines()]


@pytest.mark.slow
def test_isaac_labs_tasks_are_listed_with_what_they_need(isaaclab: Path, tmp_path: Path) -> None:
    words = (
        "Isaac-Ant-v0",
        "flat-anymal-c-v0",
        "AMP-Walk",
        "Flat-Digit-v0",
        "Teddy",
        "UR10-Long",
        "Theia",
    )
    rows = listed(tmp_path, "", *words)
    needs = {row[0]: row[1:] for row in rows if row and row[0].startswith("Isaac-")}
    assert needs["Isaac-Ant-v0"] == ["rsl_rl", "rl_games", "skrl", "sb3"]
    assert needs["Isaac-Velocity-Flat-Anymal-C-v0"][-1] == "skrl"
    assert needs["Isaac-Humanoid-AMP-Walk-Direct-v0"] == ["skrl_amp"]
    assert needs["Isaac-Velocity-Flat-Digit-v0"][-1].endswith("Digit/digit_v4.usd")
    assert needs["Isaac-Navigation-Flat-Anymal-C-v0"][-1].endswith("Blind/policy.pt")
    soft = " ".join(needs["Isaac-Lift-Teddy-Bear-Franka-IK-Abs-v0"])
    assert soft == "DeformableObjectCfg: deformable bodies are not simulated"
    gripper = " ".join(needs["Isaac-Stack-Cube-UR10-Long-Suction-IK-Rel-v0"])
    assert gripper.endswith("SurfaceGripperCfg: surface grippers are not simulated")
    if importlib.util.find_spec("transformers") is None:
        assert needs["Isaac-Cartpole-RGB-TheiaTiny-v0"][-3:] == ["the", "package", "transformers"]
    anymals = [name for name in needs if "Anymal" in name]
    assert anymals[0].startswith("Isaac-Velocity")  # those that need nothing come first
    counts = [" ".join(row[:6]) for row in rows if row[1:2] == ["of"]]
    assert counts[:2] == ["1 of 1 tasks need nothing", "1 of 2 tasks need nothing"]


def test_a_project_is_listed_by_its_folder(isaaclab: Path, tmp_path: Path) -> None:
    folder = str(Path(__file__).parent / "project")
    rows = listed(tmp_path, folder, "small", "nothing")
    assert ["Small-Walker-v0", "rsl_rl"] in rows
    assert rows[-1] == ["No", "task", "of", folder, "matches", "'nothing'."]


def test_isaac_labs_tasks_that_a_project_imports_are_not_listed_as_its_own(
    tmp_path: Path,
) -> None:
    cfgs = {"Isaac-Ant-v0": "isaaclab_tasks.ant.cfg:AntCfg", "Mine-v0": "mine.isaaclab_tasks:Cfg"}
    found = {
        name: EnvSpec(id=name, entry_point="x:Env", kwargs={"env_cfg_entry_point": cfg})
        for name, cfg in cfgs.items()
    }
    assert [*own_tasks(str(tmp_path), found)] == ["Mine-v0"]


@pytest.mark.slow
def test_code_of_a_project_that_fails_is_a_sentence(isaaclab: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(Path(__file__).parent / "project", folder)
    package = folder / "source/small_walker/small_walker"
    (package / "other.py").write_text(
        "from gymnasium import register\nopen('/lost.txt')\n"
        "register('Other-v0', kwargs={'env_cfg_entry_point': ''})\n"
    )
    text = (package / "__init__.py").read_text()
    made = text.replace('f"{__name__}.walker_env_cfg:WalkerPPORunnerCfg"', "AGENT").replace(
        "import gymnasium\n", "import gymnasium\nfrom .walker_env_cfg import AGENT\n"
    )
    (package / "__init__.py").write_text(made)
    with (package / "walker_env_cfg.py").open("a") as file:
        file.write("\nAGENT = WalkerPPORunnerCfg()  # an object in place of a class\n")
    words = ["train", "rsl_rl", f"--isaaclab={folder}", "--num_envs=4", "--device=cpu"]
    command = [sys.executable, "-m", "envlab", *words, "--max_iterations=1"]
    code, output = run([*command, "--task=Other-v0"], tmp_path)
    assert code == 2, output[-3000:]
    assert "small_walker.other is not imported" in output
    assert "other.py:2: FileNotFoundError: [Errno 2] No such file" in output
    code, output = run([*command, "--task=Small-Walker-v0"], tmp_path)
    assert code == 0, output[-3000:]
    (package / "__init__.py").write_text(made.replace("walker_env_cfg:WalkerEnvCfg", "broken:Cfg"))
    (package / "broken.py").write_text("def Cfg():\n    return None.levels\n")
    code, output = run([*command, "--task=Small-Walker-v0"], tmp_path)
    assert code == 2, output[-3000:]
    assert "small_walker.broken:Cfg cannot be made" in output
    assert "broken.py:2: AttributeError: 'NoneType' object has no attribute 'levels'." in output


def test_a_model_is_ours_or_a_file(tmp_path: Path) -> None:
    assert has_model("nucleus:/Isaac/Robots/Unitree/Go2/go2.usd")
    assert has_model("nucleus:/Isaac/Props/Blocks/red_block.usd")
    assert has_model("nucleus:/Isaac/Environments/Grid/default_environment.usd")
    assert not has_model(str(tmp_path / "arm.usd"))
    (tmp_path / "arm.urdf").write_text("<robot/>")
    assert has_model(str(tmp_path / "arm.usd"))


def test_a_reason_why_modules_are_not_imported_is_told_once() -> None:
    assert told({"a.one": "no x.", "a.two": "no x.", "b": "no y."}) == [
        "a.one (and 1 more) is not imported: no x.",
        "b is not imported: no y.",
    ]
