"""Model files are found wherever they may be; errors in them are reported with file and line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envlab.envs.model_files import find_model, is_urdf, one_material_each, read_spec
from envlab.envs.scene import load_model
from envlab.errors import SimulationError

BODY = '<body name="b"><joint name="j"/><geom size="0.1"/></body>'
INERTIA = '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
LINK = f'<link name="{{name}}"><inertial><mass value="1"/>{INERTIA}</inertial></link>\n'
URDF = (
    '<?xml version="1.0"?>\n<!-- two links -->\n<robot name="arm">\n'
    + LINK.format(name="base")
    + LINK.format(name="arm")
    + LINK.format(name="tool")
    + '<joint name="elbow" type="revolute"><parent link="base"/><child link="arm"/>'
    '<axis xyz="0 1 0"/><limit lower="-1" upper="2" effort="5" velocity="3"/></joint>\n'
    '<joint name="mount" type="fixed"><parent link="arm"/><child link="tool"/></joint>\n'
    "</robot>\n"
)


def world(inside: str, rest: str = "") -> str:
    return f"<mujoco>\n<worldbody>\n{inside}\n</worldbody>\n{rest}</mujoco>\n"


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder / next(iter(files)).replace("__", ".")


def failure(path: Path | str) -> str:
    with pytest.raises(SimulationError) as caught:
        load_model(str(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_urdf_is_recognised_by_its_content_and_keeps_links_that_are_fixed_to_others(tmp_path):
    for path in (write(tmp_path, robot__xml=URDF), write(tmp_path, robot__urdf=URDF)):
        assert is_urdf(path)
        assert read_spec(path).body("arm") is not None
        model = load_model(str(path))
        assert model.joint("elbow").range.tolist() == [-1.0, 2.0]
        assert [model.body(i).name for i in range(model.nbody)] == ["world", "base", "arm", "tool"]


def test_of_a_visuals_materials_the_first_counts_and_lines_keep_their_numbers(tmp_path):
    """As exporters of meshes write them, one for each part; MuJoCo refuses a second."""
    material = '<material name="m{}"><color rgba="0 0 0 1"/></material>\n'
    visual = '<visual><geometry><box size="1 1 1"/></geometry>{}</visual>'
    parts = visual.format("".join(map(material.format, range(3))))
    text = URDF.replace("</link>", f"{parts}</link>", 1)
    assert read_spec(write(tmp_path, robot__urdf=text)).body("arm") is not None
    kept = one_material_each(text)
    assert kept.count("<material") == 1
    assert kept.count("\n") == text.count("\n")
    separate = URDF.replace("</robot>", f"{parts}</robot>").replace("visual>", "link>")
    assert one_material_each(separate) == separate


def test_what_is_no_model_says_what_is_expected(tmp_path):
    error = failure("my_robots:arm.xml")
    assert "there is no package 'my_robots'. Install it with: pip install my-robots" in error
    write(tmp_path, arm__xml="<mujoco/>", notes__txt="")
    error = failure(tmp_path)
    assert "is a folder" in error
    assert error.endswith("It holds arm.xml.")
    for name in ("robot.usd", "robot"):
        (tmp_path / name).write_text("anything")
        assert "Give MJCF (.xml, .mjcf) or URDF (.urdf)" in failure(tmp_path / name)
    for text in ("", "  \n"):
        path = write(tmp_path, robot__xml=text)
        assert f"The model {path} is empty" in failure(path)


INCLUDING = (
    '<mujoco>\n<!-- <include file="x"/> -->\n<include\nfile="part.xml"></include>\n</mujoco>'
)
MESH = (
    '<collision><geometry><mesh filename="package://robot/hull.stl"/></geometry></collision>'
    "</link></robot>"
)
HULL = '<asset>\n<mesh name="m" file="hull.stl"/></asset>'
AFTER = '<mujoco>\n<include file="part.xml"/>\n<worldbody>\n<bogus/></worldbody></mujoco>'
PARENT = '<parent link="a"/><child link="b"/>'
JOINT = f'<joint name="j" type="fixed">{PARENT}</joint>'


WRONG = [
    ("unrecognized element (<bogus>)", 4, world("\n<bogus/>")),
    ("unrecognized attribute: 'colour' (<geom>)", 4, world('<geom size="1"/>\n<geom colour="1"/>')),
    ("bad format in attribute 'size'", 3, world('<geom size="a"/>')),
    ("mismatched tag", 4, world('<body>\n<geom size="1"></body>')),
    ("not well-formed XML", 1, "just text"),
    (
        "unknown transmission target 'x'",
        6,
        world(BODY, '<actuator>\n<motor joint="x"/></actuator>'),
    ),
    ("mass and inertia", 3, world("<body>\n<joint/></body>")),
    (
        "URDF joint parent or child missing",
        3,
        f'<robot name="r">\n<link name="a"/>\n{JOINT}</robot>',
    ),
    ("mismatched tag", 3, '<robot name="r">\n<link name="a">\n</robot>'),
    # Meshes and included files that do not exist.
    ("hull.stl' does not exist", 6, world('<geom type="mesh" mesh="m"/>', HULL)),
    ("hull.stl' does not exist", 6, f'<robot name="r">\n\n\n\n\n<link name="a">{MESH}'),
    (
        "includes 'legs.xml', which is not a fi",
        3,
        '<mujoco>\n\n<include file="legs.xml"/></mujoco>',
    ),
    # After an included file, lines are those of the file that includes it.
    ("unrecognized element (<bogus>)", 4, AFTER),
]
"""What is wrong, the line at which it is, and the file."""


def test_a_file_called_mjcf_is_read_with_its_includes(tmp_path):
    including = '<mujoco><include file="b.xml"/></mujoco>'
    path = write(tmp_path, a__mjcf=including, b__xml=world(BODY))
    assert load_model(str(path)).joint(0).name == "j"


@pytest.fixture
def menagerie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the robots, which is empty."""
    pytest.importorskip(
        "mujoco_menagerie", reason="needs mujoco-menagerie: pip install -e '.[menagerie]'"
    )
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path))
    return tmp_path


def test_a_robot_of_the_menagerie_comes_from_its_root(menagerie):
    folder = menagerie / "unitree_go2"
    folder.mkdir()
    write(folder, go2__xml=world(BODY), scene__xml="<mujoco/>")
    assert find_model("menagerie:unitree_go2") == folder / "go2.xml"
    assert find_model("menagerie:unitree_go2/scene") == folder / "scene.xml"
    assert load_model("menagerie:unitree_go2").nbody == 2


def test_a_robot_that_the_menagerie_cannot_give_is_an_error(menagerie, monkeypatch):
    for robot, message in (
        ("unitree_go3", "Unknown robot 'unitree_go3'. Did you mean 'unitree_go2'"),
        ("unitree_go2", "'unitree_go2' not found under MENAGERIE_ROOT"),
        ("unitree_go2/roof", "'unitree_go2' has no entry point 'roof'"),
    ):
        if "/" in robot:
            (menagerie / "unitree_go2").mkdir()
        error = failure(f"menagerie:{robot}")
        assert message in error
        assert "set MENAGERIE_ROOT" in error
    monkeypatch.setitem(sys.modules, "mujoco_menagerie", None)
    assert "pip install -c constraints.txt -e '.[menagerie]'" in failure("menagerie:unitree_go2")


def test_errors_name_file_and_line(tmp_path):
    part = "<mujoco>\n<!-- a\nlong\none -->\n<worldbody/></mujoco>"
    for message, line, text in WRONG:
        path = write(tmp_path, robot__xml=text, part__xml=part)
        error = failure(path)
        assert f"{path}, line {line}" in error
        assert message in error


def test_errors_in_included_files_name_these(tmp_path):
    for part, line, message in (
        ("<mujoco>\n<worldbody>\n<bogus/></worldbody></mujoco>", 3, "(<bogus>)"),
        ('<mujoco>\n<worldbody>\n\n<geom size="0"/></worldbody></mujoco>', 4, "must be positive"),
        ("<mujoco>\n<worldbody>\n<geom </worldbody></mujoco>", 3, "not well-formed XML"),
    ):
        error = failure(write(tmp_path, robot__xml=INCLUDING, part__xml=part))
        assert f"{tmp_path / 'part.xml'}, line {line}" in error
        assert message in error
    path = write(
        tmp_path,
        a__xml='<mujoco><include file="b.xml"/></mujoco>',
        b__xml='<mujoco><include file="a.xml"/></mujoco>',
    )
    assert "includes it again" in failure(path)


def test_files_that_mujoco_takes_are_never_refused(tmp_path):
    """Files are only searched for errors after MuJoCo has refused them."""
    text = world(BODY).replace("<mujoco>", '<mujoco model="a > b">')
    assert load_model(str(write(tmp_path, robot__xml=text))).njnt == 1


def test_a_package_is_found_without_importing_it(tmp_path, monkeypatch):
    package = tmp_path / "package_with_a_trap"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('it was imported')\n")
    (package / "models" / "arm.xml").write_text("<mujoco/>")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_model("package_with_a_trap:models/arm.xml") == package / "models" / "arm.xml"
    assert find_model("package_with_a_trap.models:arm.xml") == package / "models" / "arm.xml"
