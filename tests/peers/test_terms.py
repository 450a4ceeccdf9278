"""Terms and math beside Isaac Lab's and mjlab's own functions, on the same inputs.

The peers' functions get objects with the attributes that they read, filled from a Go2 of ours in 32
states that a random policy has led to.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from envlab.config import load_yaml
from envlab.distributed.context import DistributedContext
from envlab.envs import ManagerEnv, mdp
from envlab.envs import math as rotations
from envlab.envs.entities import SceneEntity
from envlab.envs.mdp.events import joint_limits
from envlab.registry import discover, get_task, load_env_cfg
from tests.envs.sliders import select
from tests.launcher import ROOT
from tests.peers.sources import TermBase, chosen, functions_of, module_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
WORDS = load_yaml(ROOT / "docs/terms.yaml")
NUM_ENVS = 32
FEET, SPEED = 4, 30.0
"""Feet, and the speed in rad/s at which Go2's motors have no torque."""


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {n.name for n in tree.body if isinstance(n, kinds) and not n.name.startswith("_")}


def randomisations(path: Path) -> set[str]:
    """Return the functions of mjlab's module ``dr``, without its types."""
    parts = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)]
    return {f"dr.{one.name}" for node in parts if node.module != "_types" for one in node.names}


def test_the_lists_are_those_of_the_packages(peers: Path, isaac: Path):
    files = {"reward": "rewards", "termination": "terminations", "observation": "observations"}
    files |= {"event": "events", "curriculum": "curriculums"}
    of_isaac, of_mjlab = (WORDS["lists"][peer] for peer in ("Isaac Lab", "mjlab"))
    for kind, name in files.items():
        assert names_in(isaac / f"envs/mdp/{name}.py") == {*of_isaac[kind].split()}, name
        found = {n for n in names_in(peers / f"mjlab/envs/mdp/{name}.py") if "Stage" not in n}
        if kind == "event":
            found |= randomisations(peers / "mjlab/envs/mdp/dr/__init__.py")
        assert found == {*of_mjlab[kind].split()}, name
    functions = {*WORDS["math"]["here"].split(), *WORDS["math"]["no_meaning"]}
    assert names_in(isaac / "utils/math.py") == functions
    assert all(hasattr(rotations, name) for name in WORDS["math"]["here"].split())
    listed = {*WORDS["no_meaning"], *WORDS["differs"]}
    words = " ".join(words for peer in WORDS["lists"].values() for words in peer.values()).split()
    of_tasks = " ".join(WORDS["of_tasks"].values()).split()
    assert listed <= {*words, *of_tasks}
    assert not {*WORDS["no_meaning"]} & {*mdp.__all__}


@dataclasses.dataclass
class Both:
    """A Go2 of ours, and the object that the peers' functions get in its place."""

    env: ManagerEnv
    robot: SceneEntity
    feet: SimpleNamespace
    """The feet in a contact sensor of ours."""
    peer: Any


@pytest.fixture(scope="module")
def both(isaac: Path) -> Iterator[Both]:
    discover()
    task = get_task("Isaac-Velocity-Flat-Unitree-Go2-v0")
    cfg = load_env_cfg(task)
    fields = (*cfg.sim.data_fields, "xpos", "xquat", "qfrc_actuator")
    cfg = dataclasses.replace(cfg, sim=dataclasses.replace(cfg.sim, data_fields=fields))
    context = DistributedContext.single("cpu")
    env = task.make(cfg, num_envs=NUM_ENVS, context=context, seed=0)
    env.reset()
    generator = torch.Generator().manual_seed(0)
    widths = torch.linspace(0.2, 4.0, NUM_ENVS).unsqueeze(1)
    for _ in range(20):
        env.step(widths * torch.randn(NUM_ENVS, 12, generator=generator))
    forces = 3.0 * torch.randn(NUM_ENVS, 3, FEET, 3, generator=generator)
    norms = forces.norm(dim=3).amax(dim=1)
    robot = select(env)
    peer = peer_of(env, robot, forces, module_of(isaac / "utils/math.py"))
    yield Both(env, robot, SimpleNamespace(force_norms=norms), peer)
    env.close()


def peer_of(env: ManagerEnv, robot: SceneEntity, forces: torch.Tensor, maths: ModuleType) -> Any:
    """Return an environment with the peers' attributes and our values."""
    data, ctrl = env.sim.data, env.sim.ctrl
    quat, joint_pos, joint_vel = data.qpos[:, 3:7], data.qpos[:, 7:], data.qvel[:, 6:]
    down = torch.tensor([[0.0, 0.0, -1.0]]).expand(NUM_ENVS, 3)
    low, high = joint_limits(env, robot)
    middle, half = 0.5 * (low + high), 0.45 * (high - low)
    limits = torch.stack((middle - half, middle + half), dim=1).expand(NUM_ENVS, 12, 2)
    # Isaac Lab's DCMotor of Go2: 25 N m/rad, 0.5 N m s/rad, 23.5 N m, 30 rad/s.
    computed = 25.0 * (ctrl - joint_pos) - 0.5 * joint_vel
    top, bottom = (23.5 * (sign - joint_vel / SPEED) for sign in (1.0, -1.0))
    applied = torch.clip(computed, bottom.clip(min=-23.5), top.clip(max=23.5))
    bodies = slice(1, None)
    poses = torch.cat((data.xpos[:, bodies], data.xquat[:, bodies]), dim=2)
    projected = maths.quat_apply_inverse(quat, down)
    asset = SimpleNamespace(
        data=SimpleNamespace(
            GRAVITY_VEC_W=down,
            root_pos_w=data.qpos[:, :3],
            root_link_pos_w=data.qpos[:, :3],
            root_quat_w=quat,
            root_lin_vel_b=mdp.base_lin_vel(env, robot),
            root_lin_vel_w=mdp.root_lin_vel_w(env, robot),
            root_ang_vel_b=data.qvel[:, 3:6],
            root_link_ang_vel_b=data.qvel[:, 3:6],
            root_ang_vel_w=maths.quat_apply(quat, data.qvel[:, 3:6]),
            projected_gravity_b=projected,
            body_pose_w=poses,
            body_quat_w=poses[..., 3:],
            joint_pos=joint_pos,
            joint_pos_biased=joint_pos,
            joint_vel=joint_vel,
            default_joint_pos=env.default_qpos_rows[:, 7:],
            default_joint_vel=torch.zeros_like(joint_vel),
            soft_joint_pos_limits=limits,
            soft_joint_vel_limits=torch.full_like(joint_vel, SPEED),
            computed_torque=computed,
            applied_torque=applied,
            qfrc_actuator=data.qfrc_actuator[:, 6:],
        ),
        find_joints=lambda names: (list(range(12)), robot.joint_names),
    )

    class Scene(dict[str, Any]):
        env_origins = env.env_origins
        sensors = {"contact": SimpleNamespace(data=SimpleNamespace(net_forces_w_history=forces))}

    return SimpleNamespace(
        num_envs=NUM_ENVS,
        device="cpu",
        scene=Scene(robot=asset),
        termination_manager=SimpleNamespace(
            terminated=env.termination_manager.terminated,
            time_outs=env.termination_manager.time_outs,
            find_terms=lambda keys: [
                name for name in env.termination_manager.active_terms if re.fullmatch(keys, name)
            ],
            get_term=lambda name: env.termination_manager.episode_values()[
                f"Episode_Termination/{name}"
            ],
        ),
        action_manager=env.action_manager,
        command_manager=env.command_manager,
        episode_length_buf=env.episode_length_buf,
        max_episode_length=env.max_episode_length,
        max_episode_length_s=env.cfg.episode_length_s,
        step_dt=env.step_dt,
    )


TOUCH = "contact"
SPEEDS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("joint_vel_limits", {"soft_ratio": ratio}, {"soft_ratio": ratio}) for ratio in (0.02, 0.1)
]
OF_ISAAC: dict[str, list[tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "rewards": [
        *((name, {}, {}) for name in ("is_alive", "is_terminated", "lin_vel_z_l2")),
        *((name, {}, {}) for name in ("ang_vel_xy_l2", "flat_orientation_l2", "joint_vel_l2")),
        *((name, {}, {}) for name in ("joint_deviation_l1", "joint_pos_limits", "action_l2")),
        *((name, {}, {}) for name in ("applied_torque_limits", "action_rate_l2")),
        ("joint_vel_l1", {}, {"asset_cfg": chosen()}),
        ("base_height_l2", {"target_height": 0.3}, {"target_height": 0.3}),
        *SPEEDS,
        *(
            (name, {"threshold": value, "sensor_cfg": TOUCH}, {"threshold": value})
            for name in ("undesired_contacts", "desired_contacts", "contact_forces")
            for value in (3.0, 6.0)
        ),
        *(
            (name, given, given)
            for name in ("track_lin_vel_xy_exp", "track_ang_vel_z_exp")
            for given in [{"std": 0.5, "command_name": "base_velocity"}]
        ),
    ],
    "terminations": [
        *((name, {}, {}) for name in ("time_out", "joint_pos_out_of_limit")),
        *((name, {}, {}) for name in ("joint_vel_out_of_limit", "joint_effort_out_of_limit")),
        ("bad_orientation", {"limit_angle": 0.2}, {"limit_angle": 0.2}),
        ("root_height_below_minimum", {"minimum_height": 0.3}, {"minimum_height": 0.3}),
        ("joint_pos_out_of_manual_limit", {"bounds": (-1.5, 1.5)}, {"bounds": (-1.5, 1.5)}),
        ("joint_vel_out_of_manual_limit", {"max_velocity": 8.0}, {"max_velocity": 8.0}),
        ("illegal_contact", {"threshold": 8.0, "sensor_cfg": TOUCH}, {"threshold": 8.0}),
    ],
    "observations": [
        *((name, {}, {}) for name in ("base_pos_z", "base_lin_vel", "base_ang_vel")),
        *((name, {}, {}) for name in ("projected_gravity", "root_pos_w", "root_quat_w")),
        *((name, {}, {}) for name in ("root_lin_vel_w", "root_ang_vel_w", "body_pose_w")),
        # Isaac Lab's fails for several bodies.
        ("body_projected_gravity_b", {"body": 1}, {"asset_cfg": chosen(body_ids=[1])}),
        *((name, {}, {}) for name in ("joint_pos", "joint_pos_rel")),
        *((name, {}, {}) for name in ("joint_vel", "joint_vel_rel")),
        *((name, {}, {}) for name in ("last_action", "current_time_s", "remaining_time_s")),
        (
            "generated_commands",
            {"command_name": "base_velocity"},
            {"command_name": "base_velocity"},
        ),
    ],
}
ALL_WITHOUT_A_ROBOT = (
    *("is_alive", "is_terminated", "action_l2", "action_rate_l2", "time_out", "last_action"),
    *("generated_commands", "current_time_s", "remaining_time_s", "undesired_contacts"),
    *("desired_contacts", "contact_forces", "illegal_contact"),
)


def compare(both: Both, name: str, theirs: Callable[..., Any], given: Any, peer: Any) -> None:
    """Check a term of ours against a peer's."""
    given = {key: both.feet if value == TOUCH else value for key, value in given.items()}
    if "body" in given:
        given = {"asset_cfg": select(both.env, body_names=both.robot.body_names[given["body"]])}
    elif name not in ALL_WITHOUT_A_ROBOT:
        given["asset_cfg"] = both.robot
    value, wanted = getattr(mdp, name)(both.env, **given), theirs(both.peer, **peer)
    torch.testing.assert_close(
        value.to(wanted.dtype), wanted, atol=1e-6, rtol=1e-6, msg=lambda text: f"{name}: {text}"
    )


def test_terms_have_the_values_of_isaac_labs(both: Both, isaac: Path):
    known = {
        "math_utils": module_of(isaac / "utils/math.py"),
        "ManagerTermBase": TermBase,
        "generic_io_descriptor": lambda **_: lambda function: function,
        **{f"record_{of}": None for of in ("shape", "dtype", "body_names", "joint_names")},
        **{f"record_{of}": None for of in ("joint_pos_offsets", "joint_vel_offsets")},
    }
    varied = set()
    for file, terms in OF_ISAAC.items():
        functions = functions_of(isaac / f"envs/mdp/{file}.py", **known)
        for name, given, peer in terms:
            if "sensor_cfg" in given:
                peer = {**peer, "sensor_cfg": chosen(TOUCH)}
            compare(both, name, functions[name], given, peer)
            if functions[name](both.peer, **peer).float().std(dim=0).max() > 0.0:
                varied.add(name)
        if file == "rewards":
            for keys in (".*", "base_contact"):
                cfg = SimpleNamespace(params={"term_keys": keys})
                expected = functions["is_terminated_term"](cfg, both.peer)(both.peer)
                assert mdp.is_terminated_term(both.env, keys).equal(expected), keys
    # What was applied in the last physics step is MuJoCo's here.
    both.peer.scene["robot"].data.applied_torque = both.env.sim.data.qfrc_actuator[:, 6:]
    compare(both, "joint_effort", functions["joint_effort"], {}, {})
    limits = {"applied_torque_limits", "joint_vel_limits", "contact_forces", "joint_pos_limits"}
    outs = {"joint_pos_out_of_limit", "joint_effort_out_of_limit", "joint_vel_out_of_manual_limit"}
    assert {*limits, *outs} <= varied  # the states are on both sides of the bounds


def test_terms_have_the_values_of_mjlabs(both: Both, peers: Path):
    strings = module_of(peers / "mjlab/utils/lab_api/string.py")
    known = {"resolve_matching_names_values": strings.resolve_matching_names_values}
    rewards = functions_of(peers / "mjlab/envs/mdp/rewards.py", **known)
    std = {".*_hip_joint": 0.1, ".*_thigh_joint": 0.3, ".*_calf_joint": 0.5}
    for name, given in (("posture", {"std": std}), ("electrical_power_cost", {})):
        cfg = SimpleNamespace(params={"asset_cfg": chosen(), **given})
        theirs = rewards[name](cfg, both.peer)
        compare(both, name, theirs, given, {"asset_cfg": chosen(), **given})
    for name in ("joint_vel_l2", "joint_pos_limits", "flat_orientation_l2", "action_rate_l2"):
        compare(both, name, rewards[name], {}, {})
    terminations = functions_of(peers / "mjlab/envs/mdp/terminations.py")
    for name, given in (
        *(("time_out", {}), ("bad_orientation", {"limit_angle": 0.2})),
        ("root_height_below_minimum", {"minimum_height": 0.3}),
    ):
        compare(both, name, terminations[name], given, given)
    observations = functions_of(peers / "mjlab/envs/mdp/observations.py")
    for name in ("base_ang_vel", "projected_gravity", "joint_pos_rel", "joint_vel_rel"):
        compare(both, name, observations[name], {}, {})


# Math ---------------------------------------------------------------------------------------------

MANY = 64
GENERATOR = torch.Generator().manual_seed(0)
V, W = torch.randn(2, MANY, 3, generator=GENERATOR).double().unbind()
UNIT = torch.rand(MANY, 3, generator=GENERATOR).double()
Q, R = (rotations.random_orientation(unit) for unit in (UNIT, UNIT.flip(0)))
MATRIX = rotations.matrix_from_quat(Q)
POSE = rotations.make_pose(V, MATRIX)
LOW, HIGH = -UNIT[0] - 0.1, UNIT[1] + 0.1
CAMERA = torch.tensor([[50.0, 0.0, 7.0], [0.0, 40.0, 5.0], [0.0, 0.0, 1.0]]).double()
DEPTH = torch.rand(3, 10, 14, 1, generator=GENERATOR).double() + 0.5
OF_MATH: list[tuple[str, tuple[Any, ...]]] = [
    *((name, (V, LOW, HIGH)) for name in ("scale_transform", "unscale_transform", "saturate")),
    *((name, (V,)) for name in ("normalize", "wrap_to_pi", "skew_symmetric_matrix")),
    *((name, (Q,)) for name in ("quat_unique", "matrix_from_quat", "quat_conjugate", "yaw_quat")),
    *((name, (Q,)) for name in ("euler_xyz_from_quat", "axis_angle_from_quat", "convert_quat")),
    *((name, (Q, R)) for name in ("quat_mul", "quat_box_minus", "quat_error_magnitude")),
    *((name, (Q, V)) for name in ("quat_apply", "quat_apply_inverse", "quat_apply_yaw")),
    *((name, (Q, V)) for name in ("quat_rotate", "quat_rotate_inverse", "quat_box_plus")),
    *((name, (V, Q, W, R)) for name in ("combine_frame_transforms", "subtract_frame_transforms")),
    ("copysign", (-3.0, V)),
    ("quat_inv", (2.0 * Q,)),
    ("quat_from_euler_xyz", tuple(V.unbind(1))),
    ("quat_from_matrix", (MATRIX,)),
    *(("matrix_from_euler", (V, axes)) for axes in ("XYZ", "ZYX", "ZXZ")),
    ("quat_from_angle_axis", (V[:, 0], W)),
    ("rigid_body_twist_transform", (V, W, W.flip(0), Q)),
    ("compute_pose_error", (V, Q, W, R)),
    ("compute_pose_error", (V, Q, W, R, "quat")),
    ("apply_delta_pose", (V, Q, torch.cat((W, V), dim=1))),
    *(("transform_points", (V.view(8, 8, 3), *pose)) for pose in ((V[:8], Q[:8]), (V[0], Q[0]))),
    ("transform_points", (V, V[0])),
    ("default_orientation", (3, "cpu")),
    *(
        ("convert_camera_frame_orientation_convention", (Q.float(), origin, target))
        for origin in ("opengl", "ros", "world")
        for target in ("opengl", "ros", "world")
    ),
    *(("create_rotation_matrix_from_view", (V.float(), W.float(), axis)) for axis in "YZ"),
    *((name, (DEPTH, CAMERA)) for name in ("orthogonalize_perspective_depth", "unproject_depth")),
    *(("unproject_depth", (DEPTH[0, ..., 0], CAMERA, is_flat)) for is_flat in (True, False)),
    ("project_points", (UNIT.view(8, 8, 3) + 0.5, CAMERA)),
    ("make_pose", (V, MATRIX)),
    *((name, (POSE,)) for name in ("unmake_pose", "pose_inv")),
    ("pose_in_A_to_pose_in_B", (POSE, POSE.flip(0))),
    ("transform_poses_from_frame_A_to_frame_B", (POSE, POSE[0], POSE[1])),
]


def test_math_is_isaac_labs(isaac: Path, monkeypatch: pytest.MonkeyPatch):
    theirs = module_of(isaac / "utils/math.py")
    for name, arguments in OF_MATH:
        values, wanted = (getattr(module, name)(*arguments) for module in (rotations, theirs))
        if name.startswith("convert_camera"):  # which may differ in sign
            values, wanted = (rotations.quat_unique(quat) for quat in (values, wanted))
        torch.testing.assert_close(
            values, wanted, atol=1e-6, rtol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
    for tau in (0.0, 0.3, 1.0):
        pairs = zip(Q.clone(), R.clone(), strict=True)
        wanted = torch.stack([theirs.quat_slerp(*pair, tau) for pair in pairs])
        value = rotations.quat_unique(rotations.quat_slerp(Q, R, tau))
        torch.testing.assert_close(value, rotations.quat_unique(wanted), atol=1e-6, rtol=0)
    assert theirs.is_identity_pose(V, Q) == rotations.is_identity_pose(V, Q)
    compared = {*(name for name, _ in OF_MATH), "quat_slerp", "is_identity_pose"}
    compared |= compare_draws(theirs, monkeypatch)
    assert compared == {*WORDS["math"]["here"].split()} - {"random_orientation"}


def compare_draws(theirs: ModuleType, patch: pytest.MonkeyPatch) -> set[str]:
    """Compare functions of draws, with the draws that Isaac Lab's function makes."""
    size, unit, normal = (MANY, 3), UNIT, V
    patch.setattr(torch, "rand", lambda *shape, **_: unit if shape != (MANY,) else unit[:, 0])
    patch.setattr(torch, "normal", lambda mean, std, size: normal * std + mean)
    patch.setattr(
        torch.Tensor, "uniform_", lambda to, low, high: to.copy_(unit[:, 1] * (high - low) + low)
    )
    for name, arguments, draws in (
        *((f"sample_{of}", (0.5, 3.0), unit) for of in ("uniform", "log_uniform", "triangle")),
        ("sample_gaussian", (0.5, 3.0), normal),
    ):
        wanted = getattr(theirs, name)(*arguments, size, "cpu")
        torch.testing.assert_close(getattr(rotations, name)(*arguments, draws), wanted)
    # Heights are drawn apart from angles, by uniform_().
    patch.setattr(torch, "rand", lambda *_, **__: unit[:, 0])
    wanted = theirs.sample_cylinder(2.0, (1.0, 3.0), MANY, "cpu")
    points = rotations.sample_cylinder(2.0, (1.0, 3.0), unit[:, :2])
    torch.testing.assert_close(points.float(), wanted)
    yaw = torch.jit.ignore(rotations.random_yaw_orientation)(unit[:, 0])
    assert math.isclose(float(yaw.norm(dim=1).mean()), 1.0, abs_tol=1e-6)
    patch.undo()
    of = ("uniform", "log_uniform", "triangle", "gaussian", "cylinder")
    return {*(f"sample_{name}" for name in of), "random_yaw_orientation"}
