"""Robots of USD files, in processes of their own: mujoco[usd] need not be in the tests'."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

from tests import launcher

WHERE = "ENVLAB_TEST_USD"
"""Names a folder that ``mujoco[usd]`` is installed in by ``pip install --target``, as by CI."""

ARM = """#usda 1.0
(
    defaultPrim = "arm"
    upAxis = "Z"
    metersPerUnit = 1
)
def Xform "arm" (prepend apiSchemas = ["PhysicsArticulationRootAPI"])
{
    def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
    {
        float physics:mass = 1
        float3 physics:diagonalInertia = (0.01, 0.01, 0.01)
    }
    def Xform "upper" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
    {
        float physics:mass = 2
        float3 physics:diagonalInertia = (0.01, 0.01, 0.01)
    }
    def PhysicsRevoluteJoint "shoulder"
    {
        rel physics:body0 = </arm/base>
        rel physics:body1 = </arm/upper>
        uniform token physics:axis = "Y"
    }
}
"""
LIBRARIES = """
import envlab_isaaclab.launcher
import io, mujoco, torch
assert "usd" in open("/proc/self/maps").read(), "USD's libraries are not loaded"
file = io.BytesIO()
torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 1), torch.zeros(1, 2)), file)
file.seek(0)
print("LOADED", torch.jit.load(file)(torch.zeros(1, 2)).shape)
"""


@pytest.fixture
def python() -> list[str]:
    """The words that begin a command in which ``mujoco[usd]`` is installed."""
    folder = os.environ.get(WHERE)
    if folder:
        places = [folder, launcher.variables()["PYTHONPATH"]]
        return ["env", f"PYTHONPATH={os.pathsep.join(places)}", sys.executable]
    if importlib.util.find_spec("mujoco.usd.MjcPhysics") is None:
        pytest.skip(f"needs mujoco[usd]: pip install 'mujoco[usd]', or {WHERE}=FOLDER")
    return [sys.executable]


def read(python: list[str], folder: Path, text: str) -> tuple[int, str]:
    """Read a stage; return the exit code, and what was printed."""
    (folder / "arm.usda").write_text(text, encoding="utf-8")
    program = Path(__file__).with_name("usd_reading.py")
    return launcher.run([*python, program, "arm.usda"], folder, execute=True)


def test_robot_of_a_usd_file_has_its_links_and_joints(python: list[str], tmp_path: Path) -> None:
    code, output = read(python, tmp_path, ARM)
    assert code == 0, output[-3000:]
    found = json.loads(output.splitlines()[-1])
    assert (found["links"], found["joints"]) == (["base", "upper"], ["shoulder"])
    assert found["masses"]["upper"] == 2.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ARM.replace("upAxis", "subLayers = [@./lost.usda@]\n    upAxis"), "lost.usda is missing"),
        (
            '#usda 1.0\n(\n defaultPrim = "arm"\n)\ndef Xform "arm"\n{\n}\n',
            "nothing in it is a rigid body",
        ),
        ("#usda 1.0\n", "it has no default prim"),
    ],
)
def test_usd_file_that_is_no_robot_is_one_sentence(
    python: list[str], tmp_path: Path, text: str, told: str
) -> None:
    code, output = read(python, tmp_path, text)
    assert code == 2, output[-3000:]
    assert told in output


def test_torchs_networks_load_beside_usds_libraries(python: list[str], tmp_path: Path) -> None:
    code, output = launcher.run([*python, "-c", LIBRARIES], tmp_path, execute=True)
    assert code == 0, output[-3000:]
    assert "LOADED torch.Size([1, 1])" in output
