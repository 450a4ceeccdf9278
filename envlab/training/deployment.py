"""The files that accompany a policy outside of envlab: ``deploy.yaml``, its model, and a player.

The same facts are in ``policy.onnx``'s metadata, both as JSON (``deploy``) and under mjlab's keys,
and in ``deploy.yaml`` under those of unitree_rl_lab: ``joint_ids_map``, ``step_dt``,
``stiffness``, ``damping``, ``default_joint_pos``, ``commands``, ``actions``, ``observations``.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import mujoco
import numpy as np

import envlab
from envlab.commit import git_state
from envlab.config import reference_of, to_dict, yaml_text
from envlab.envs import BatchedEnv, ManagerEnv, SceneEntityCfg
from envlab.envs.entities import SceneEntity, resolve_entity
from envlab.envs.entity_files import write_scene
from envlab.envs.joint_order import Convention, joint_names
from envlab.envs.managers import ObservationTermCfg
from envlab.envs.managers.observation import factors
from envlab.envs.mdp.commands import NullCommand
from envlab.envs.mdp.motion_command import MotionCommand
from envlab.envs.mdp.velocity_command import NormalVelocityCommand
from envlab.envs.scene import build_spec
from envlab.errors import EnvlabError
from envlab.motion import MotionClip, write_clip
from envlab.training.export import exporting

PLAYER = Path(envlab.__file__).parent / "tools" / "deploy.py"
MOTION = "motion.npz"
"""The clip that a policy follows, in the same folder."""
SAME = "# The same is in policy.onnx, whose metadata is what deploy.py reads.\n"
_FROM_MJCF = ("ant", "humanoid")
"""Robots that Isaac Lab loads from MJCF, whose bodies it leaves in the file's order."""
_FRAMES = {
    "base_pos_z": "world",
    "base_lin_vel": "root",
    "base_ang_vel": "root",
    "projected_gravity": "root",
    "generated_commands": "root",
    "sensor": "sensor",
}
"""The reference of an observation's values; any other observation has its own zero."""


class NotDeployable(EnvlabError):
    """The reason why a policy cannot be described, in a sentence."""


def write_deployment(
    env: BatchedEnv, directory: Path, facts: Mapping[str, Any], order: Convention = "envlab"
) -> list[Path]:
    """Describe the ``policy.onnx`` of a directory, and add the files that it needs to run.

    Args:
        env: The environment that the policy acts in.
        directory: The folder of ``policy.onnx``, which gets metadata, and with another order
            permuted inputs and outputs.
        facts: The policy's origin: ``task``, ``library``, ``run``.
        order: The convention for the order of its joints.

    Returns:
        The files that were written.

    Raises:
        NotDeployable: If the policy's inputs, or the use of its outputs, cannot be described.
        RunDirectoryError: If they cannot be written.
    """
    if not isinstance(env, ManagerEnv):
        raise NotDeployable(
            f"{facts['task']} is not manager-based: what it observes and what becomes of actions "
            "is code, so there are no terms to describe."
        )
    ours, cfg = (describe(env, facts, one) for one in ("envlab", order))
    _check_inputs(directory / "policy.onnx", ours)
    files = {"deploy.yaml": SAME + yaml_text(cfg)}
    clip = _clip(env)
    if clip is not None and order != "envlab":
        raise NotDeployable(
            f"{facts['task']} follows a motion, whose joints are in the robot's own order. Leave "
            "--joint_order out."
        )
    with exporting(directory):
        _annotate(directory / "policy.onnx", ours, cfg, _tracked(env))
        if clip is not None:
            write_clip(clip, directory / MOTION)
        for name, text in {**files, PLAYER.name: PLAYER.read_text()}.items():
            (directory / name).unlink(missing_ok=True)  # it could be a link to another file
            (directory / name).write_text(text)
        scene = write_scene(_scene(env), directory)
    written = (*files, *([] if clip is None else [MOTION]), PLAYER.name)
    return [*(directory / name for name in written), *scene]


def describe(env: ManagerEnv, facts: Mapping[str, Any], order: Convention) -> dict[str, Any]:
    """Return the facts that a controller needs, with lists in the policy's order of joints.

    Only ``robot_joint_names`` and the actuators' ``stiffness``, ``damping`` and ``effort_limits``
    are in the robot's own order, that of the MJCF, as in unitree_rl_lab; ``joint_ids_map`` has
    the places of the policy's joints in it.

    Raises:
        NotDeployable: If an action term is code.
    """
    for actuator in env.torch_actuators or ():
        raise NotDeployable(
            f"The actuators {actuator.name!r} are computed in torch, which deploy.yaml cannot "
            "describe. Run policy.onnx in a controller of your own."
        )
    model = env.sim.model
    siblings: Literal["file", "name"] = (
        "file" if Path(env.cfg.scene.model).stem in _FROM_MJCF else "name"
    )
    named = functools.partial(joint_names, model, siblings=siblings)
    robot, names = named("envlab"), named(order)
    root = resolve_entity(SceneEntityCfg(), model, env.device)
    joints = [model.joint(name) for name in names]
    ids = [int(model.jnt_qposadr[joint.id]) for joint in joints]
    actions = _actions(env, names, order)
    gains = [_gains(model, name) for name in robot]
    return {
        **facts,
        "envlab": envlab.__version__,
        "commit": (git_state() or {}).get("commit"),
        "joint_order": order,
        "joint_names": names,
        "joint_ids_map": [robot.index(name) for name in names],
        "robot_joint_names": robot,
        "isaaclab_joint_names": named("isaaclab"),
        "root_body": None if root.root_qpos_start is None else model.body(root.root_body).name,
        "step_dt": env.step_dt,
        "physics_dt": env.physics_dt,
        "decimation": env.cfg.decimation,
        "default_joint_pos": _digits(env.default_qpos[0, ids].tolist()),
        "joint_pos_limits": [
            joint.range.tolist() if model.jnt_limited[joint.id] else None for joint in joints
        ],
        "stiffness": [stiffness for stiffness, _, _ in gains],
        "damping": [damping for _, damping, _ in gains],
        "effort_limits": [limit for _, _, limit in gains],
        "commands": {
            name: _command(env, name)
            for name in env.command_manager.active_terms
            if not isinstance(env.command_manager.get_term(name), NullCommand)
        },
        "actions": actions,
        "observations": {
            name: _observation(env, term, function.keywords, size, names)  # type: ignore[attr-defined]
            for (name, (term, function)), size in zip(
                env.observation_manager.terms().items(), _sizes(env), strict=True
            )
        },
    }


def _digits(values: list[float]) -> list[float]:
    """Return float32 numbers as the shortest decimals that become the same float32 again."""
    return [float(str(np.float32(value))) for value in values]


def _actions(env: ManagerEnv, names: list[str], order: Convention) -> dict[str, Any]:
    """Return the action terms, with joints in the policy's order if it is ours, else in ``names``'.

    Raises:
        NotDeployable: If a term is code.
    """
    actions = env.action_manager.describe()
    for name, one in actions.items():
        if one is None:
            raise NotDeployable(
                f"The action term {name!r} is more than a scale and an offset of joints, so "
                "deploy.yaml cannot describe it."
            )
        own = one["joint_names"]
        # In our own order, which an action may choose, the policy is as it was trained.
        ordered = own if order == "envlab" else [joint for joint in names if joint in own]
        chosen = [own.index(joint) for joint in ordered]
        one["joint_names"] = [own[i] for i in chosen]
        for key in ("scale", "offset"):
            one[key] = _digits([one[key][i] for i in chosen])
        if one["clip"] is not None and isinstance(one["clip"][0], list):
            one["clip"] = [_digits([ends[i] for i in chosen]) for ends in one["clip"]]
        one["joint_ids"] = [names.index(joint) for joint in one["joint_names"]]
    return actions


def _observation(
    env: ManagerEnv,
    term: ObservationTermCfg,
    params: Mapping[str, Any],
    size: int,
    names: list[str],
) -> dict[str, Any]:
    """Return an observation term, with the joints' names if it is about only some of them."""
    plain = {}
    for key, value in params.items():
        if not isinstance(value, SceneEntity):
            described = getattr(value, "cfg", value)  # a sensor is described by its configuration
            plain[key] = to_dict(described) if dataclasses.is_dataclass(described) else described
    function = reference_of(term.func)
    kind = function.rpartition(":")[2]
    for entity in (value for value in params.values() if isinstance(value, SceneEntity)):
        if kind == "sensor":
            plain["sensor_names"] = _sensor_names(env.sim.model, entity)
        elif kind.startswith("joint_") and len(entity.joint_names) < len(names):
            plain["joint_names"] = [name for name in names if name in entity.joint_names]
    if term.modifiers:
        raise NotDeployable(
            f"The observation term {kind!r} has modifiers, which deploy.yaml cannot describe."
        )
    length = max(1, term.history_length)
    if not term.flatten_history_dim and term.history_length:
        raise NotDeployable(
            f"The observation term {kind!r} keeps its history in a separate dimension, but a "
            "policy on a robot takes one row of numbers."
        )
    size //= length
    return {
        "func": function,
        "params": plain,
        "size": size,
        "scale": factors(term.scale, size),
        "clip": None if term.clip is None else list(term.clip),
        "noise": None if term.noise is None else to_dict(term.noise),
        "history_length": length,
        "frame": _FRAMES.get(kind),
    }


def _sizes(env: ManagerEnv) -> list[int]:
    columns = env.observation_manager.columns().values()
    return [column.stop - column.start for column in columns]


def _sensor_names(model: mujoco.MjModel, entity: SceneEntity) -> list[str]:
    ids = entity.sensor_ids
    chosen = range(model.nsensordata)[ids] if isinstance(ids, slice) else ids.tolist()
    starts = model.sensor_adr.tolist()
    return [model.sensor(starts.index(start)).name for start in chosen if start in starts]


def _command(env: ManagerEnv, name: str) -> dict[str, Any]:
    """Return a command's ranges, and an initial value: forward as fast as possible."""
    term = env.command_manager.get_term(name)
    ranges = to_dict({"ranges": getattr(term.cfg, "ranges", None)})["ranges"]
    value = _digits(term.command[0].tolist())
    if isinstance(ranges, dict) and "lin_vel_x" in ranges:
        value = [ranges["lin_vel_x"][1], 0.0, 0.0]
    if isinstance(term, NormalVelocityCommand):
        value = [term.cfg.ranges.mean_vel[0], 0.0, 0.0]
    about = None
    if isinstance(term, MotionCommand):
        about = {"anchor": term.cfg.anchor_body_name, "fps": _digits([1.0 / env.step_dt])[0]}
    return {"ranges": ranges, "value": value, "motion": about}


def _gains(model: mujoco.MjModel, joint: str) -> tuple[float, float, float | None]:
    """Return stiffness, damping and largest effort of a joint's actuator; zeros without one."""
    found = np.flatnonzero(
        (model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT)
        & (model.actuator_trnid[:, 0] == model.joint(joint).id)
    )
    if not len(found):
        return 0.0, 0.0, None
    i = int(found[0])
    if model.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_DCMOTOR:  # its controller's
        stiffness, damping = model.actuator_gainprm[i, [4, 6]].tolist()
    else:
        stiffness, damping = (0.0 - model.actuator_biasprm[i, 1:3]).tolist()
    limit = float(model.actuator_forcerange[i, 1]) if model.actuator_forcelimited[i] else None
    return stiffness, damping, limit


def _scene(env: ManagerEnv) -> mujoco.MjSpec:
    """Return the robot and its surroundings, with a floor in place of terrain."""
    scene = dataclasses.replace(env.cfg.scene, terrain=None)
    return build_spec(scene, env.cfg.sim, env.edit_spec)[0]


def _check_inputs(path: Path, cfg: Mapping[str, Any]) -> None:
    import onnx

    inputs = onnx.load(str(path)).graph.input
    names = [one.name for one in inputs]
    images = [one.name for one in inputs if len(one.type.tensor_type.shape.dim) == 4]
    if images:
        raise NotDeployable(
            f"The policy sees images ({', '.join(images)}), and deploy.py, which has no camera, "
            "cannot draw them. Run policy.onnx in a controller of your own."
        )
    if "h_in" in names:
        raise NotDeployable(
            f"The policy has a memory ({', '.join(names)}), which deploy.py does not keep. Run "
            "policy.onnx, one step of it, in a controller of your own."
        )
    width = inputs[0].type.tensor_type.shape.dim[-1].dim_value
    size = sum(term["size"] * term["history_length"] for term in cfg["observations"].values())
    if names != ["obs"] or width != size:
        raise NotDeployable(
            f"The policy takes {', '.join(names)} with {width} values, but the observation group "
            f"'policy' has {size}: only policies on that group alone can be described."
        )


def _motions(env: ManagerEnv) -> list[MotionCommand]:
    terms = map(env.command_manager.get_term, env.command_manager.active_terms)
    return [term for term in terms if isinstance(term, MotionCommand)]


def _clip(env: ManagerEnv) -> MotionClip | None:
    """Return the (first) clip that a policy follows, or None if it follows none."""
    return next((term.clips[0] for term in _motions(env)), None)


def _tracked(env: ManagerEnv) -> dict[str, str]:
    """Return mjlab's metadata of policies that follow a motion."""
    return {
        key: value
        for term in _motions(env)
        for key, value in (
            ("anchor_body_name", term.cfg.anchor_body_name),
            ("body_names", ",".join(term.cfg.body_names)),
        )
    }


def _annotate(
    path: Path, ours: Mapping[str, Any], cfg: Mapping[str, Any], more: Mapping[str, str]
) -> None:
    """Write metadata, and make our policy take and return joints in another order."""
    import onnx
    from onnx import helper, numpy_helper

    network = onnx.load(str(path))
    graph = network.graph
    if ours["joint_order"] != cfg["joint_order"]:
        places = _columns(ours, cfg)
        for name, ids in zip(("obs", "actions"), places, strict=True):
            graph.initializer.append(numpy_helper.from_array(np.array(ids), f"{name}_places"))
        for node in graph.node:
            node.input[:] = ["own_obs" if one == "obs" else one for one in node.input]
            node.output[:] = ["own_actions" if one == "actions" else one for one in node.output]
        gather = functools.partial(helper.make_node, "Gather", axis=1)
        graph.node.insert(0, gather(["obs", "obs_places"], ["own_obs"]))
        graph.node.append(gather(["own_actions", "actions_places"], ["actions"]))
    flat = {
        "joint_names": cfg["joint_names"],
        "joint_stiffness": [cfg["stiffness"][i] for i in cfg["joint_ids_map"]],
        "joint_damping": [cfg["damping"][i] for i in cfg["joint_ids_map"]],
        "default_joint_pos": cfg["default_joint_pos"],
        "command_names": list(cfg["commands"]),
        "observation_names": list(cfg["observations"]),
        "action_scale": [scale for one in cfg["actions"].values() for scale in one["scale"]],
    }
    texts = {key: ",".join(map(str, values)) for key, values in flat.items()}
    helper.set_model_props(
        network, {"run_path": str(cfg["run"]), **texts, **more, "deploy": json.dumps(cfg)}
    )
    onnx.save(network, str(path))


def _columns(ours: Mapping[str, Any], cfg: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """Return the places of our observations in those of ``cfg``, and of its actions in ours.

    Raises:
        NotDeployable: If a term is neither about joints nor free of them.
    """

    def driven(one: Mapping[str, Any]) -> list[str]:
        return [f"{name} {j}" for name, a in one["actions"].items() for j in a["joint_names"]]

    obs: list[int] = []
    for name, term in ours["observations"].items():
        kind, size, start = term["func"].rpartition(":")[2], term["size"], len(obs)
        source, target = (
            driven(one)
            if kind == "last_action"
            else one["observations"][name]["params"].get("joint_names", one["joint_names"])
            for one in (cfg, ours)
        )
        is_joints = kind == "last_action" or kind.startswith("joint_")
        if is_joints and size != len(target):
            raise NotDeployable(
                f"The observation {name!r} has {size} values for {len(target)} joints, so that "
                "they cannot be put into another order."
            )
        for age in range(term["history_length"]):
            first = start + age * size
            obs += [first + (source.index(target[i]) if is_joints else i) for i in range(size)]
    return obs, [driven(ours).index(joint) for joint in driven(cfg)]
