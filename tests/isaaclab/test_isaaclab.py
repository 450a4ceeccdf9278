"""Isaac Lab's own files on our simulators: tasks of isaaclab_tasks, bad input, the check.

The user's Isaac Lab is found as a user's is: by ISAACLAB_PATH, or installed by
``pip install --no-deps isaaclab==2.3.2.post1``.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import envlab.registry
from envlab.errors import ConfigurationError
from envlab_isaaclab import check, upstream

HERE = Path(__file__).parent


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "envlab_isaaclab", *words],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={**os.environ, **variables},
    )


@pytest.fixture(scope="module")
def isaaclab() -> Path:
    try:
        return upstream.find()
    except ConfigurationError as error:
        pytest.skip(f"needs Isaac Lab's files: {error}")


def seen(script: str, word: str) -> dict[str, object]:
    done = run(str(HERE / script), word, "--headless", "--device=cpu")
    assert done.returncode == 0, done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("SEEN "))
    found: dict[str, object] = json.loads(line.removeprefix("SEEN "))
    return found


@pytest.mark.slow
def test_cartpole_is_that_of_our_registry(isaaclab: Path) -> None:
    theirs = seen("stepping.py", "--task=Isaac-Cartpole-v0")
    assert theirs["joints"] == ["slider_to_cart", "cart_to_pole"]
    envlab.registry.discover()
    env = gymnasium.make_vec("Isaac-Cartpole-v0", num_envs=3)
    env.reset(seed=1)
    qpos, qvel = (torch.tensor(part) for part in theirs["start"])
    env.sim.reset(torch.ones(3, dtype=torch.bool), qpos, qvel)
    for step in theirs["steps"]:
        obs, reward, *_ = env.step(torch.full((3, 1), 0.5))
        np.testing.assert_allclose(step["obs"], obs["policy"], atol=2e-3)
        np.testing.assert_allclose(step["reward"], reward, atol=1e-4)
    env.close()


@pytest.mark.slow
def test_ant_has_the_order_of_physx(isaaclab: Path) -> None:
    theirs = seen("stepping.py", "--task=Isaac-Ant-v0")
    assert theirs["joints"][:4] == [
        "front_left_leg",
        "front_right_leg",
        "left_back_leg",
        "right_back_leg",
    ]
    assert theirs["bodies"][0] == "torso"
    assert len(theirs["steps"][0]["obs"][0]) == 60
    assert np.isfinite(np.array(theirs["steps"][-1]["obs"])).all()
    assert all(abs(place[0]) < 1.0 for place in theirs["root"])


URDF = """<robot name="arm">
<link name="base"><inertial><mass value="1"/>
<inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="upper"><inertial><origin xyz="0 0 .2"/><mass value="1"/>
<inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
<axis xyz="0 1 0"/><limit lower="-1.5" upper="1.5" effort="20" velocity="5"/></joint></robot>"""
MJCF = """<mujoco><worldbody><body name="base"><inertial pos="0 0 0" mass="1"
diaginertia=".01 .01 .01"/><body name="upper"><joint name="shoulder" axis="0 1 0"
range="-90 90"/><geom type="cylinder" size=".03 .2" pos="0 0 .2" mass="1"/></body></body>
</worldbody></mujoco>"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), [("arm.urdf", URDF), ("arm.xml", MJCF)])
def test_arm_from_a_file_rests_where_its_drive_holds_its_weight(
    isaaclab: Path, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    found = seen("spawning.py", f"--file={tmp_path / name}")
    for angle in found["angles"]:
        assert 20.0 * (angle - 0.5) == pytest.approx(9.81 * 0.2 * math.sin(angle), abs=1e-3)
    assert found["heights"] == pytest.approx([0.1, 0.1], abs=1e-3)
    for angle, felt in zip(found["angles"], found["up"], strict=True):
        expected = [-9.81 * math.sin(angle), 0.0, 9.81 * math.cos(angle)]
        assert felt == pytest.approx(expected, abs=1e-2)


def test_script_that_is_not_there_is_one_sentence() -> None:
    done = run("no_such_script.py")
    assert done.returncode == 2
    assert "There is no script 'no_such_script.py'" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_release_is_refused_with_its_version(tmp_path: Path) -> None:
    for name in ("isaaclab", "config"):
        (tmp_path / "source/isaaclab" / name).mkdir(parents=True)
    (tmp_path / "source/isaaclab/isaaclab/__init__.py").touch()
    extension = tmp_path / "source/isaaclab/config/extension.toml"
    extension.write_text('[package]\nversion = "4.1.0"\n', encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"isaaclab 4\.1\.0, which is not of release 2\.3"):
        upstream.find(str(tmp_path))


def test_folder_without_isaac_lab_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="There is no Isaac Lab in"):
        upstream.find(str(tmp_path))


def test_check_names_what_is_not_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cfg.py").write_text(
        "import isaaclab.sim as sim\n"
        "ours = sim.UsdFileCfg(usd_path=f'{ROOT}/Robots/Unitree/Go2/go2.usd')\n"
        "other = sim.UsdFileCfg(usd_path=f'{ROOT}/Robots/Agility/Digit/digit_v4.usd')\n"
        "camera = TiledCameraCfg(prim_path='/World/camera')\n",
        encoding="utf-8",
    )
    assert check.main(["check", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "cfg.py:3: /Robots/Agility/Digit/digit_v4.usd" in shown
    assert "cfg.py:4: TiledCameraCfg (pictures are not made)" in shown
    assert "go2.usd" not in shown


def test_check_refuses_a_folder_without_isaac_lab(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import torch\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="imports isaaclab"):
        check.uses_in(tmp_path)
