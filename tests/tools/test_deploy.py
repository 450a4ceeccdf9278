"""An exported policy moves the robot as ``play`` does, without torch; bad input is one sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import onnx
import pytest
import torch
import yaml

from envlab.cli import main
from envlab.distributed.context import DistributedContext
from envlab.envs import mdp
from envlab.registry import get_task, load_env_cfg
from envlab.tools import deploy
from envlab.tools.deploy import DeployError, Player
from envlab.training.deployment import NotDeployable, describe, write_deployment
from tests.envs import hopper
from tests.envs.sliders import make_env, terms

CARTPOLE, ANT = "Isaac-Cartpole-v0", "Isaac-Ant-v0"
GO2 = "Isaac-Velocity-Flat-Unitree-Go2-v0"
GETUP = "Playground-Go1Getup-v0"
EXPERIMENTS = {
    CARTPOLE: "rsl_rl/cartpole",
    ANT: "rsl_rl/ant",
    GO2: "rsl_rl/unitree_go2_flat",
    GETUP: "fast_sac/playground_go1getup",
}
RANDOM = ("physics_material", "add_base_mass", "push_robot")
"""Events that make a robot differ from the exported one."""
STEPS = {CARTPOLE: 100, ANT: 60, GO2: 30, GETUP: 40}
CHAOTIC = {ANT}
"""Its landings turn the last bit into 1e-4 within a second; the others play without syncing, and
end before Go2 lands, which does the same."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Any:
    """Export pretrained policies, each once: ``folder(task, order)``."""
    root, done = tmp_path_factory.mktemp("deploy"), {}

    def export(task: str, order: str = "envlab") -> Path:
        if (task, order) not in done:
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(root)
                words = [f"--task={task}", "--checkpoint=pretrained", "--device=cpu"]
                library = EXPERIMENTS[task].partition("/")[0]
                assert main(["export", library, *words, f"--joint_order={order}"]) == 0
            name = "exported" if order == "envlab" else f"exported_{order}"
            done[task, order] = root / "logs" / EXPERIMENTS[task] / "pretrained" / name
        return done[task, order]

    return export


def environment(task: str) -> Any:
    """The task with one robot, equal to the exported one."""
    cfg = load_env_cfg(get_task(task))
    cfg.observations.policy.enable_corruption = False
    for name in RANDOM:
        if hasattr(cfg.events, name):
            setattr(cfg.events, name, None)
    return get_task(task).make(cfg, num_envs=1, context=DistributedContext.single("cpu"), seed=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", [CARTPOLE, GO2, *(pytest.param(name, marks=pytest.mark.long) for name in (ANT, GETUP))]
)
def test_the_player_acts_as_play_does(folder, task: str):
    env, player = environment(task), Player(folder(task))
    policy = torch.jit.load(str(folder(task) / "policy.pt"))
    obs, data = env.obs_buf, env.sim.data
    player.reset(data.qpos[0].numpy(), data.qvel[0].numpy())
    for _ in range(STEPS[task]):
        for name in player.commands:
            player.commands[name] = env.command_manager.get_command(name)[0].numpy()
        with torch.inference_mode():
            action = policy(obs["policy"])
        np.testing.assert_allclose(player.act(), action[0], atol=1e-4)
        player.step(player.act())
        obs = env.step(action)[0]
        if task in CHAOTIC:
            player.data.qpos[:], player.data.qvel[:] = (
                data.qpos[0].numpy(),
                data.qvel[0].numpy(),
            )


def test_a_policy_in_isaac_labs_order_moves_the_robot_alike(folder):
    ours, other = Player(folder(GO2)), Player(folder(GO2, "isaaclab"))
    assert other.cfg["joint_names"] == ours.cfg["isaaclab_joint_names"] != ours.cfg["joint_names"]
    names = [player.cfg["actions"]["joint_pos"]["joint_names"] for player in (ours, other)]
    for _ in range(20):
        actions = [player.act() for player in (ours, other)]
        by_name = [dict(zip(*pair, strict=True)) for pair in zip(names, actions, strict=True)]
        assert by_name[0] == pytest.approx(by_name[1], abs=1e-5)
        for player, action in zip((ours, other), actions, strict=True):
            player.step(action)
    assert not (folder(GO2, "isaaclab") / "policy.pt").exists()


def test_deploy_yaml_is_the_metadata_under_known_names(folder):
    metadata = {
        one.key: one.value for one in onnx.load(str(folder(GO2) / "policy.onnx")).metadata_props
    }
    cfg = yaml.safe_load((folder(GO2) / "deploy.yaml").read_text())
    assert cfg == json.loads(metadata["deploy"])
    assert metadata["joint_names"].split(",") == cfg["joint_names"]
    assert (cfg["step_dt"], cfg["stiffness"][0], cfg["damping"][0]) == (0.02, 25.0, 0.5)
    assert cfg["actions"]["joint_pos"]["scale"] == [0.25] * 12
    assert cfg["actions"]["joint_pos"]["offset"] == pytest.approx(cfg["default_joint_pos"])
    gravity = cfg["observations"]["projected_gravity"]
    assert (gravity["size"], gravity["frame"], gravity["noise"]["n_max"]) == (3, "root", 0.05)


def test_the_copy_next_to_a_policy_runs_alone_and_loads_no_torch(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder(CARTPOLE), copy)
    code = (
        "import runpy, sys; sys.argv = ['deploy.py', '--seconds', '0.5']\n"
        "try: runpy.run_path(sys.path.pop(0) + '/deploy.py', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code\n"
        "assert not {'torch', 'envlab', 'yaml', 'gymnasium'} & set(sys.modules)"
    )
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(copy)!r})\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{CARTPOLE}: 30 steps")


def test_an_observation_of_ones_own_has_its_formula_in_a_file_that_stays(
    tmp_path, capsys, monkeypatch
):
    """A player that was changed would be overwritten by the next export."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(deploy.TERMS, "joint_vel_rel")  # as if Cartpole's task had brought it
    export = ["export", "rsl_rl", f"--task={CARTPOLE}", "--checkpoint=pretrained", "--device=cpu"]
    folder = f"logs/{EXPERIMENTS[CARTPOLE]}/pretrained/exported"
    short = [folder, "--seconds=0.5"]
    assert main(export) == 0
    message = refused(capsys, *short)
    assert "observes 'joint_vel_rel', which envlab.envs.mdp" in message
    assert "'def joint_vel_rel(player, params)'" in message
    assert "--terms FILE" in message
    terms = Path(folder, "terms.py")
    terms.write_text(
        "import numpy as np\nHALF = 0.5\n\n"
        "def joint_vel_rel(player, params):\n    return player.velocities(params)\n"
    )
    assert main(export) == 0
    assert main(["deploy", *short, f"--terms={terms}"]) == 0
    assert f"{CARTPOLE}: 30 steps" in capsys.readouterr().out
    for text, words in (
        ("def joint_vel_rel(player, params):\n    return params['x']\n", "failed (KeyError: 'x')"),
        ("def joint_vel_rel(:\n", "which cannot be run (SyntaxError: invalid syntax"),
        (None, "which cannot be run (FileNotFoundError"),
    ):
        terms.unlink() if text is None else terms.write_text(text)
        assert words in refused(capsys, *short, f"--terms={terms}")


def refused(capsys, *words: str) -> str:
    """Return the one line of ``envlab deploy`` as it ends with exit code 2."""
    capsys.readouterr()
    assert main(["deploy", *words]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return message


DAMAGES: list[tuple[dict[str, Any], str]] = [
    ({"step_dt": 0}, "step_dt is 0, but must be above 0"),
    ({"physics_dt": "fast"}, "TypeError"),
    ({"decimation": 10**12}, "decimation is 1000000000000, but must be from 1 to"),
    ({"decimation": 2.0}, "decimation is 2.0"),
    ({"observations": 3}, "AttributeError"),
    ({"actions": {"x": {}}}, "KeyError: 'joint_names'"),
    ({"default_joint_pos": [0.0] * 9}, "ValueError"),
]


def test_bad_input_is_one_sentence(folder, tmp_path, capsys, monkeypatch):
    good = str(folder(CARTPOLE))
    assert "There is no" in refused(capsys, str(tmp_path))
    other = str(folder(GO2) / "scene.xml")
    assert "has no joint slider_to_cart, cart_to_pole, which" in refused(
        capsys, good, "--mjcf", other
    )
    twice, motor = tmp_path / "twice.xml", '<actuator><motor joint="slider_to_cart"/></actuator>'
    twice.write_text(Path(good, "scene.xml").read_text().replace("</mujoco>", f"{motor}</mujoco>"))
    message = refused(capsys, good, "--mjcf", str(twice))
    assert "has 2 actuators on the joint slider_to_cart, but the policy drives it" in message
    message = refused(capsys, str(folder(GO2)), "--command", "1", "0")
    assert "--command has 2 numbers, but the command 'base_velocity' has 3" in message
    for seconds in ("0", "nan", "inf"):
        message = refused(capsys, good, "--seconds", seconds)
        assert f"--seconds is {seconds}, but must be above 0" in message
    monkeypatch.setenv("DISPLAY", ":none")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert "No window can be opened" in refused(capsys, good, "--viewer")
    (tmp_path / "policy.onnx").write_bytes(b"no policy")
    assert "cannot be read" in refused(capsys, str(tmp_path))
    network = onnx.load(good + "/policy.onnx")
    del network.metadata_props[:]
    onnx.save(network, str(tmp_path / "policy.onnx"))
    assert "has no metadata" in refused(capsys, str(tmp_path))
    shutil.copy(good + "/scene.xml", tmp_path)
    whole = json.loads(deploy.open_policy(Path(good, "policy.onnx"))[0].get_modelmeta()
                       .custom_metadata_map["deploy"])  # fmt: skip
    for damage, words in DAMAGES:
        network.metadata_props.add(key="deploy", value=json.dumps({**whole, **damage}))
        onnx.save(network, str(tmp_path / "policy.onnx"))
        del network.metadata_props[:]
        message = refused(capsys, str(tmp_path))
        assert "is damaged" in message
        assert words in message
    monkeypatch.delitem(deploy.TERMS, "joint_vel_rel")
    assert "observes 'joint_vel_rel'" in refused(capsys, good)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "pip install onnxruntime" in refused(capsys, good)


NETWORK = """
<ir_version: 8, opset_import: ["" : 17]>
policy (float[n, 4] obs) => (float[n, 1] actions)
<int64 most = {1000000000000000}, bool yes = {1}, int64[1] size = {5000000000},
 int64[1] start = {0}, int64[1] end = {1}, int64[1] axis = {1}>
{
    first = Slice(obs, start, end, axis)
    %s
}
"""
HANGS = """actions = Loop(most, yes, first) <body = again (int64 number, bool on, float[n, 1] x)
    => (bool on_again, float[n, 1] twice) { on_again = Identity(on) twice = Add(x, x) }>"""
FILLS = """huge = ConstantOfShape(size)
    sum = ReduceSum<keepdims = 0>(huge)
    actions = Add(first, sum)"""


def test_a_network_that_hangs_or_fills_the_memory_is_one_sentence(
    folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(deploy, "FIRST_ACTION_S", 0.5)
    shutil.copy(folder(CARTPOLE) / "scene.xml", tmp_path)
    metadata = onnx.load(folder(CARTPOLE) / "policy.onnx").metadata_props
    for nodes, sentence in [
        (HANGS, "has no action after 0.5 s"),
        (FILLS, "does not take 4 observations"),
    ]:
        network = onnx.parser.parse_model(NETWORK % nodes)
        network.metadata_props.extend(metadata)
        onnx.save(network, tmp_path / "policy.onnx")
        assert sentence in refused(capsys, str(tmp_path))


HUGE = (
    '<replicate count="10000" offset="1 0 0"><replicate count="10000" offset="0 1 0">'
    '<geom size="0.1"/></replicate></replicate>'
)
FIELD = '<asset><hfield name="h" nrow="60000" ncol="60000" size="1 1 1 1"/></asset>'


def test_a_model_that_is_made_to_hang_or_to_fill_the_memory_is_one_sentence(
    folder, tmp_path, capsys
):
    shutil.copy(folder(CARTPOLE) / "policy.onnx", tmp_path)
    text = (folder(CARTPOLE) / "scene.xml").read_text()
    for begin, sentence in [
        (f"<worldbody>{HUGE}", "it has 100000000 copies of a part, and may have 100000"),
        (f"{FIELD}<worldbody>", "a hfield has 3600000000 cells, and may have 100"),
        ("<worldbody>\x1b]0;owned\x07", "MuJoCo refuses"),
        ('<worldbody><body name="\x1b"/>', "MuJoCo refuses"),
    ]:
        (tmp_path / "scene.xml").write_text(text.replace("<worldbody>", begin, 1))
        message = refused(capsys, str(tmp_path))
        assert sentence in message
        assert "\x1b" not in message


def test_a_damaged_clip_is_one_sentence(tmp_path, monkeypatch):
    """Also a pipe, which would be waited for, and zeros that unpack to gigabytes."""
    model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><body/></worldbody></mujoco>")
    os.mkfifo(tmp_path / "pipe.npz")
    np.savez_compressed(tmp_path / "whole.npz", joint_pos=np.zeros((2, 0)))
    whole = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.npz").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "huge.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("joint_pos.npy", bytes(2**20))
    sentences = {
        "none": "There is no motion",
        "pipe": "There is no motion",
        "half": "cannot be read as a motion",
        "text": "cannot be read as a motion",
        "whole": "cannot be read as a motion",
        "huge": "unpacks to 1048576 bytes; 1000 are allowed",
    }
    monkeypatch.setattr(deploy, "MOST_MOTION_BYTES", 1000)
    for name, sentence in sentences.items():
        with pytest.raises(DeployError, match=sentence):
            deploy.Motion(tmp_path / f"{name}.npz", {"anchor": "a", "fps": 50.0}, model, 1)


def test_a_direct_task_is_refused_with_the_reason(tmp_path):
    task = get_task("Isaac-Cartpole-Direct-v0")
    env = task.make(load_env_cfg(task), num_envs=1, context=DistributedContext.single("cpu"))
    with pytest.raises(NotDeployable, match="is not manager-based"):
        write_deployment(env, tmp_path, {"task": task.id})


def test_the_default_pose_is_described_to_the_bit():
    env = environment(GO2)
    pose = torch.tensor([0.1, 1 / 3, 0.7654321, -1.4142135] * 3)
    env.default_qpos[0, 7:] = pose
    written = json.loads(json.dumps(describe(env, {}, "envlab")))["default_joint_pos"]
    env.close()
    assert torch.equal(torch.tensor(written), pose)


def test_a_scan_of_the_ground_is_described_by_its_points():
    env = environment("Isaac-Velocity-Rough-Unitree-Go2-v0")
    cfg = json.loads(json.dumps(describe(env, {}, "envlab")))
    env.close()
    scan = cfg["observations"]["height_scan"]
    assert scan["size"] == 187
    pattern = scan["params"]["sensor_cfg"]["pattern_cfg"]
    assert (pattern["resolution"], pattern["size"]) == (0.1, [1.6, 1.0])


def test_the_player_remembers_what_the_policy_observes_of_the_past(tmp_path):
    cfg = load_env_cfg(get_task(GO2))
    cfg.observations.policy.history_length = 3
    player = compare_with_player(cfg, tmp_path)
    assert {one["history_length"] for one in player.cfg["observations"].values()} == {3}


@pytest.mark.parametrize(
    ("cls", "bounds", "steps"),
    [
        (
            mdp.JointPositionActionCfg,
            {"FL_hip_joint": (0.0, 0.1), "R._calf_joint": (-1.5, -1.45)},
            12,
        ),
        # The first step alone: it moves the thighs with all force, where the rounded numbers of
        # scene.xml are enough for other motion.
        (
            mdp.JointPositionToLimitsActionCfg,
            {"FL_.*": (-0.02, 0.01), "RR_calf_joint": (0.0, 0.1)},
            1,
        ),
    ],
)
def test_actions_in_an_order_and_with_bounds_of_their_own_are_deployed(
    tmp_path, cls, bounds, steps
):
    cfg = load_env_cfg(get_task(GO2))
    cfg.actions.joint_pos = cls(
        joint_names=["R._.*", "F._.*"],
        preserve_order=True,
        scale={".*_hip_.*": 0.05, ".*_(thigh|calf)_.*": 0.1},
        clip=bounds,
    )
    player = compare_with_player(cfg, tmp_path, steps)
    assert len(player.cfg["actions"]["joint_pos"]["clip"][0]) == 12


def test_no_command_is_described_for_none():
    env = make_env(1, commands=terms(none=mdp.NullCommandCfg()))
    assert describe(env, {}, "envlab")["commands"] == {}
    go = mdp.NormalVelocityCommandCfg(
        resampling_time_range=(1.0, 1.0),
        ranges=mdp.NormalVelocityRangesCfg(mean_vel=(0.75, 0.0, 0.0)),
    )
    env = hopper.make_env(1, commands=terms(go=go))
    assert describe(env, {}, "envlab")["commands"]["go"]["value"] == [0.75, 0.0, 0.0]


def test_an_action_that_is_more_than_a_scale_is_refused():
    gripper = mdp.BinaryJointVelocityActionCfg(
        joint_names="drive", open_command_expr={"drive": 1.0}, close_command_expr={"drive": 0.0}
    )
    env = make_env(1, actions=terms(gripper=gripper))
    with pytest.raises(NotDeployable, match="'gripper' is more than a scale and an offset"):
        describe(env, {}, "envlab")


def compare_with_player(cfg: Any, tmp_path: Path, steps: int = 12) -> Player:
    """Compare the actions of a policy with its player's, in both orders; return the player."""
    cfg.observations.policy.enable_corruption = False
    for name in RANDOM:
        setattr(cfg.events, name, None)
    env = get_task(GO2).make(cfg, num_envs=1, context=DistributedContext.single("cpu"), seed=0)
    torch.manual_seed(0)
    policy = torch.nn.Linear(env.obs_buf["policy"].shape[1], 12)
    for order in ("envlab", "isaaclab"):
        folder = tmp_path / order
        folder.mkdir()
        names = {"input_names": ["obs"], "output_names": ["actions"]}
        axes = {"obs": {0: "batch"}, "actions": {0: "batch"}}
        example = torch.zeros(1, policy.in_features)
        path = str(folder / "policy.onnx")
        torch.onnx.export(policy, (example,), path, dynamo=False, dynamic_axes=axes, **names)
        write_deployment(env, folder, {"task": GO2, "library": "none", "run": None}, order)
        player = Player(folder)
        env.reset(seed=1)
        player.reset(env.sim.data.qpos[0].numpy(), env.sim.data.qvel[0].numpy())
        joints = player.cfg["actions"]["joint_pos"]["joint_names"]
        places = [joints.index(name) for name in env.action_manager.names()]
        for _ in range(steps):
            for name in player.commands:
                player.commands[name] = env.command_manager.get_command(name)[0].numpy()
            with torch.inference_mode():
                action = policy(env.obs_buf["policy"])
            np.testing.assert_allclose(player.act()[places], action[0], atol=1e-4)
            player.step(player.act())
            env.step(action)
            np.testing.assert_allclose(player.data.ctrl, env.sim.ctrl[0], atol=1e-4)
    env.close()
    return player
