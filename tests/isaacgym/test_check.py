"""``envlab isaacgym check``, and messages of the launcher before it starts."""

from __future__ import annotations

import pytest

from envlab.errors import ConfigurationError
from envlab_isaacgym.check import main, missing_in, own_packages, uses_in

TASK = """
import gym
from isaacgym import gymapi, gymutil
from isaacgym.torch_utils import quat_apply, quat_invented

class Task:
    def build(self):
        self.gym = gymapi.acquire_gym()
        options = gymapi.AssetOptions()
        options.thickness = 0.01
        options.armature = 0.01
        self.gym.simulate(self.sim)
        self.gym.create_viewer(self.sim, gymapi.CameraProperties())
        self.gym.set_joint_target_position(self.env, 0, 2.0)
        gym.make("CartPole-v1")
"""


def test_uses_are_classified_and_located_by_file_and_line(tmp_path, capsys):
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "old.py").write_text("print 'python 2'")
    by_kind: dict[str, list[tuple[int, str]]] = {}
    for use in uses_in(tmp_path):
        by_kind.setdefault(use.kind, []).append((use.line, use.name))
    assert (12, "Gym.simulate") in by_kind["supported"]
    assert sorted(by_kind["ignored"]) == [(10, ".thickness"), (13, "Gym.create_viewer")]
    assert sorted(by_kind["missing"]) == [
        (4, "torch_utils.quat_invented"),
        (14, "Gym.set_joint_target_position"),
    ]
    assert main(["check", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "on DOFs): task.py:14\n" in printed
    assert "Gym.set_joint_target_position (needs joints apart" in printed


def test_only_modules_of_isaacgym_are_looked_into(tmp_path):
    (tmp_path / "utils").mkdir()
    (tmp_path / "utils/torch_utils.py").touch()  # projects have their own
    (tmp_path / "task.py").write_text(
        "from isaacgym import gymtorch, gymapi as api\n"
        "from utils import torch_utils\n"
        "torch_utils.slerp(api.Vec3(), api.Vec4())\n"
    )
    found = {(use.kind, use.name) for use in uses_in(tmp_path)}
    assert found == {("supported", "gymapi.Vec3"), ("missing", "gymapi.Vec4")}


def test_checkout_without_isaacgym_is_refused(tmp_path):
    (tmp_path / "plain.py").write_text("import gym\ngym.make('CartPole-v1')\n")
    with pytest.raises(ConfigurationError, match="imports isaacgym: 1 Python files were read"):
        main(["check", str(tmp_path)])
    with pytest.raises(ConfigurationError, match="There is no file"):
        main(["check", str(tmp_path / "elsewhere")])


def test_missing_methods_of_imported_files_are_found_before_the_start(tmp_path):
    package = tmp_path / "package"
    (package / "envs").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "envs" / "__init__.py").write_text("from .task import Task\n")
    (package / "envs" / "task.py").write_text(TASK)
    (package / "unused.py").write_text(TASK)
    script = tmp_path / "train.py"
    script.write_text("from package.envs import *\n")
    files = {use.path for use in missing_in(script, [tmp_path])}
    assert files == {str(package / "envs" / "task.py")}


def test_packages_that_are_not_installed_are_missing(tmp_path, capsys):
    (tmp_path / "neighbour.py").write_text("import isaacgym")
    script = tmp_path / "train.py"
    script.write_text(
        "import isaacgym, numpy, gym, neighbour, torchvision.transforms\n"
        "from no_such_package.part import name\n"
        "try:\n    import another_one\nexcept ImportError:\n    pass\n"
    )
    for path in (script, tmp_path):
        assert main(["check", str(path)]) == 1
        printed = capsys.readouterr().out
        assert "no_such_package (is not installed): " in printed
        assert "train.py:2" in printed
        assert printed.count("not installed") == 1
    assert [use.name for use in missing_in(script, [tmp_path])] == ["no_such_package"]


def test_a_checkouts_own_packages_are_found_beside_its_script(tmp_path):
    own = tmp_path / "rsl_rl"
    (own / "rsl_rl").mkdir(parents=True)
    (own / "setup.py").touch()
    (own / "rsl_rl/__init__.py").touch()
    script = tmp_path / "legged_gym/scripts/train.py"
    script.parent.mkdir(parents=True)
    script.touch()
    assert own_packages(script) == {"rsl_rl": own.resolve()}
    (own / "rsl_rl/__init__.py").unlink()
    assert own_packages(script) == {}
    # IsaacGymEnvs' README starts the script from its folder, after an installation of the package.
    (tmp_path / "legged_gym/__init__.py").touch()
    (tmp_path / "setup.py").touch()
    assert own_packages(script) == {"legged_gym": tmp_path.resolve()}
