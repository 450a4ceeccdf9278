"""Isaac Lab's own files on our simulators: tasks of isaaclab_tasks, bad input, the check."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import envlab.registry
from envlab.envs.model_files import read_spec
from envlab.errors import ConfigurationError
from envlab_isaaclab import check, old_agents, rsl_rl_3, upstream
from envlab_isaaclab.fixed_joints import merge_fixed_joints
from tests import launcher
from tests.isaaclab.scripts import MODULE, run, seen
from tests.launcher import torchrun

HERE = Path(__file__).parent


@pytest.mark.slow
def test_cartpole_is_that_of_our_registry(isaaclab: Path, tmp_path: Path) -> None:
    theirs = seen(tmp_path, "stepping.py", "--task=Isaac-Cartpole-v0")
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


@pytest.mark.long
def test_ant_has_the_order_of_physx(isaaclab: Path, tmp_path: Path) -> None:
    theirs = seen(tmp_path, "stepping.py", "--task=Isaac-Ant-v0")
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
    found = seen(tmp_path, "spawning.py", f"--file={tmp_path / name}")
    for angle in found["angles"]:
        assert 20.0 * (angle - 0.5) == pytest.approx(9.81 * 0.2 * math.sin(angle), abs=1e-3)
    assert found["heights"] == pytest.approx([0.1, 0.1], abs=1e-3)
    for angle, felt in zip(found["angles"], found["up"], strict=True):
        expected = [-9.81 * math.sin(angle), 0.0, 9.81 * math.cos(angle)]
        assert felt == pytest.approx(expected, abs=1e-2)


PROJECT = HERE / "project"


def train(tmp_path: Path, *words: str, ranks: int = 1) -> str:
    """Run the project's own script; return what it printed."""
    script = [str(PROJECT / "scripts/train.py"), "--task=Small-Walker-v0", "--num_envs=16"]
    script += ["--headless", f"--log_dir={tmp_path}/run", *words]
    if ranks == 1:
        code, output = run(tmp_path, *script)
    else:
        code, output = launcher.run(torchrun(ranks, *MODULE, *script), tmp_path)
    assert code == 0, output[-3000:]
    return output


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_project_trains_by_its_own_script(isaaclab: Path, tmp_path: Path, ranks: int) -> None:
    words = ["--distributed"] if ranks == 2 else []
    shown = train(tmp_path, *words, "agent.max_iterations=3", ranks=ranks)
    assert shown.count("MASS 5.0") == ranks  # the trunk's link, on a fixed joint, is the root's
    assert f"Total steps: {3 * 8 * 16 * ranks}" in " ".join(shown.split())
    state = torch.load(tmp_path / "run/model_2.pt", weights_only=True)
    assert state["actor_state_dict"]["mlp.0.weight"].shape == (16, 8)
    assert state["actor_state_dict"]["obs_normalizer.count"] == 3 * 8 * 16 * ranks
    assert (tmp_path / "run/params/env.yaml").is_file()
    if ranks == 1:
        again = train(tmp_path, f"--load={tmp_path}/run/model_2.pt")
        assert "ACTIONS torch.Size([16, 2])" in again
        exported = torch.jit.load(str(tmp_path / "run/policy.pt"))
        assert exported(torch.zeros(1, 8)).shape == (1, 2)


def test_configurations_of_rsl_rl_3_become_those_of_5() -> None:
    old = {
        "empirical_normalization": dataclasses.MISSING,
        "obs_groups": {"policy": ["policy"], "critic": ["policy", "privileged"]},
        "policy": {
            "class_name": "ActorCriticRecurrent",
            "init_noise_std": 0.5,
            "actor_hidden_dims": [8],
            "critic_hidden_dims": [4],
            "critic_obs_normalization": True,
            "activation": "tanh",
            "rnn_type": "gru",
        },
        "algorithm": {"class_name": "PPO", "learning_rate": 1e-3},
    }
    new = old_agents.new_configuration(old)
    assert new["actor"] == {
        "class_name": "RNNModel",
        "hidden_dims": [8],
        "activation": "tanh",
        "obs_normalization": False,
        "rnn_type": "gru",
        "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.5},
    }
    assert new["critic"]["obs_normalization"]
    assert "distribution_cfg" not in new["critic"]
    assert new["obs_groups"] == {"actor": ["policy"], "critic": ["policy", "privileged"]}
    old["algorithm"]["gradient_penalty_coef"] = 0.1
    with pytest.raises(ConfigurationError, match=r"agent\.algorithm has gradient_penalty_coef"):
        old_agents.new_configuration(old)


def test_weights_of_rsl_rl_3_get_the_names_of_5() -> None:
    names = ["std", "actor.0.weight", "critic.0.bias", "memory_a.rnn.weight_ih_l0"]
    names += ["actor_obs_normalizer._mean"]
    state = {name: torch.full((1,), float(number)) for number, name in enumerate(names)}
    assert {name: int(value) for name, value in rsl_rl_3.old_weights(state, "actor").items()} == {
        "distribution.std_param": 0,
        "mlp.0.weight": 1,
        "rnn.rnn.weight_ih_l0": 3,
        "obs_normalizer._mean": 4,
    }
    assert list(rsl_rl_3.old_weights(state, "critic")) == ["mlp.0.bias"]


def test_fixed_joints_merge_but_for_links_that_the_file_keeps(tmp_path: Path) -> None:
    foot = (
        '<link name="{0}"><inertial><mass value=".1"/><inertia ixx=".001" iyy=".001" izz=".001" '
        'ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="{0}_fixed" type="fixed" {1}>'
        '<parent link="upper"/><child link="{0}"/><origin xyz="0 0 .4"/></joint>'
    )
    more = foot.format("hand", 'dont_collapse="true"') + foot.format("cover", "")
    file = tmp_path / "arm.urdf"
    file.write_text(URDF.replace("</robot>", f"{more}</robot>"))
    merged = merge_fixed_joints(read_spec(file), file)
    model = merged.compile()
    assert [model.body(number).name for number in range(1, 4)] == ["base", "upper", "hand"]
    assert model.njnt == 1
    assert model.body("upper").mass == pytest.approx(1.1)


def test_script_that_imports_what_is_not_there_is_one_sentence(
    isaaclab: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import a_package_that_nobody_has\n")
    code, output = run(tmp_path, "train.py")
    assert code == 2
    assert "train.py:1 imports a_package_that_nobody_has" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    "line", ["isaaclab.sim.PhysxRigidBodyMaterialCfg", "from isaaclab_physx.assets import Arm"]
)
def test_script_for_isaac_lab_3_is_refused(isaaclab: Path, tmp_path: Path, line: str) -> None:
    (tmp_path / "train.py").write_text(
        "from isaaclab.app import AppLauncher\nAppLauncher()\nimport isaaclab.sim\n" + line
    )
    code, output = run(tmp_path, "train.py")
    assert code == 2, output[-3000:]
    assert "train.py:4: " in output
    assert "Isaac Lab 2.3, which runs here, lacks it." in output
    assert "Traceback" not in output


def test_rl_games_learns_where_this_machine_can(isaaclab: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "from rl_games.torch_runner import Runner\n"
        "config = {'device': 'cuda:0', 'device_name': 'cuda:0', 'reward_shaper': {}}\n"
        "settings = {'params': {'config': config, 'algo': {'name': 'a2c_continuous'},\n"
        "    'model': {'name': 'continuous_a2c_logstd'}, 'network': {'name': 'actor_critic'}}}\n"
        "runner = Runner()\n"
        "runner.load(settings)\n"
        "import torch\n"
        "torch.zeros(1, device=runner.params['config']['device'])\n"
        "print('MADE')\n"
    )
    code, output = run(tmp_path, "train.py")
    assert code == 0, output[-3000:]
    assert "MADE" in output


def test_script_for_isaac_lab_1_is_refused(isaaclab: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from omni.isaac.lab.envs import ManagerBasedRLEnv\n")
    code, output = run(tmp_path, "train.py")
    assert code == 2
    assert "imports omni.isaac.lab, of Isaac Lab 1" in output


def test_script_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    code, output = run(tmp_path, "no_such_script.py")
    assert code == 2
    assert "There is no script 'no_such_script.py'" in output
    assert "Traceback" not in output


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
        "toy = DeformableObjectCfg(prim_path='/World/toy')\n",
        encoding="utf-8",
    )
    assert check.main(["check", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "cfg.py:3: /Robots/Agility/Digit/digit_v4.usd" in shown
    assert "cfg.py:4: DeformableObjectCfg (deformable bodies are not simulated)" in shown
    assert "go2.usd" not in shown


def test_check_knows_a_projects_own_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "cfg.py").write_text(
        "import isaaclab.sim as sim\n"
        "from omni.isaac.lab.assets import ArticulationCfg\n"
        "there = sim.UsdFileCfg(usd_path=f'{ROOT}/data/there.usd')\n"
        "pointer = sim.UsdFileCfg(usd_path=f'{ROOT}/data/pointer.usd')\n"
        "lost = sim.UsdFileCfg(usd_path=f'{ROOT}/data/lost.usd')\n",
        encoding="utf-8",
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data/there.urdf").write_text(URDF)
    (tmp_path / "data/pointer.usd").write_text("version https://git-lfs.github.com/spec/v1\n")
    assert check.main(["check", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "cfg.py:2: omni.isaac.lab.assets (of Isaac Lab 1; rename the import)" in shown
    assert "cfg.py:4: /data/pointer.usd (a pointer of Git LFS: git lfs pull)" in shown
    assert "cfg.py:5: /data/lost.usd (envlab has no model for this file)" in shown
    assert "there.usd" not in shown


def test_check_refuses_a_folder_without_isaac_lab(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import torch\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="imports isaaclab"):
        check.uses_in(tmp_path)
