"""Tasks that represent all others: together they have every feature of environments.

Tests that hold for each task run on these; with ``--all`` on every registered task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import gymnasium
import pytest

from envlab import registry
from envlab.envs import DirectMarlEnvCfg
from envlab.registry import Task

_CHOSEN = {
    "Isaac-Cartpole-v0": "managers at their simplest, on the analytic backend; efforts",
    "Isaac-Cartpole-Depth-Camera-Direct-v0": "a direct task whose observation is an image",
    "Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0": "actions that are choices",
    "Isaac-Shadow-Hand-Over-Direct-v0": "several agents with a common state; tendons",
    "Isaac-Repose-Cube-Shadow-OpenAI-FF-Direct-v0": "noise models with biases, events, a critic",
    "Isaac-Repose-Cube-Allegro-v0": "a cube in a hand by managers; successes, moving averages",
    "Isaac-Lift-Cube-Franka-IK-Abs-v0": "manipulation; poses by inverse kinematics, a gripper",
    "Envlab-Velocity-Parkour-Depth-Unitree-Go2-v0": (
        "terrain with a curriculum, a height scan, a delayed depth camera, a group for students"
    ),
    "Isaac-Velocity-Rough-G1-v0": "two legs on rough ground; contacts, pushes, commands",
    "Mjlab-Velocity-Rough-Unitree-G1": "mjlab's terms: gaits, friction and masses drawn, stages",
    "Isaac-Velocity-Flat-Spot-v0": "delayed actuators and actuators' networks' tables",
    "Mjlab-Tracking-Flat-Unitree-G1": "a motion clip followed; adaptive starts",
    "Envlab-Getup-Flat-Unitree-G1-v0": "its own environment class; falls, relative actions",
    "Nav-ObjectNav-Depth-v0": "houses without physics; cameras, goals",
}
"""By id, the features that a task is here for."""
_installed = {task.id for task in registry.list_tasks()}  # the core's tests pass without guests
ARCHETYPES = {name: why for name, why in _CHOSEN.items() if name in _installed}

OWN_CODE = (
    "Isaac-Ant-v0",
    "Isaac-Ant-Direct-v0",
    "Isaac-Humanoid-Direct-v0",
    "Isaac-Humanoid-AMP-Walk-Direct-v0",
    "Isaac-Cartpole-Direct-v0",
    "Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0",
    "Isaac-Cart-Double-Pendulum-Direct-v0",
    "Isaac-Quadcopter-Direct-v0",
    "Isaac-Franka-Cabinet-Direct-v0",
    "Isaac-Open-Drawer-Franka-v0",
    "Isaac-Repose-Cube-Allegro-Direct-v0",
    "Envlab-Repose-Cube-Leap-Direct-v0",
    "Isaac-Stack-Cube-Franka-v0",
    "LeggedGym-Flat-A1-v0",
    "Mjlab-Cartpole-Swingup",
    "Mjlab-Lift-Cube-Yam-Rgb",
    "Mjlab-Multi-Cube-Seg-Yam",
    "Playground-T1JoystickFlatTerrain-v0",
)
"""Tasks that with the archetypes cover all code of tasks; they also keep golden values."""

ALONE = {
    "LeggedGymEnv": "tests/tasks/test_a1.py",
    "observes camera": "tests/tasks/test_lift_yam.py",
    "observes subtask_terms": "tests/tasks/test_franka_stack.py",
    "envlab.envs.actuators:ActuatorNetLSTMCfg": "tests/envs/test_torch_actuators.py",
    "envlab.envs.actuators:ActuatorNetMLPCfg": "tests/envs/test_torch_actuators.py",
    "envlab.envs.contact_match:ContactMatch": "tests/envs/test_contact_match.py",
    "envlab.envs.actuators:DCMotorCfg": "tests/envs/test_actuators.py",
    "envlab.envs.actuators:IdealPDActuatorCfg": "tests/envs/test_actuators.py",
    "envlab.envs.mdp.effort_actions:OperationalSpaceControllerActionCfg": (
        "tests/envs/mdp/test_operational_space_action.py"
    ),
    "envlab.envs.operational_space:OperationalSpaceControllerCfg": (
        "tests/envs/mdp/test_operational_space_action.py"
    ),
    "envlab.envs.mdp.contacts:illegal_collision": "tests/envs/mdp/test_contacts.py",
    "envlab.envs.mdp.contacts:undesired_contacts": "tests/envs/mdp/test_contacts.py",
    "envlab.envs.mdp.curriculums:reward_curriculum": "tests/envs/mdp/test_curriculums.py",
    "envlab.envs.mdp.dr:geom_friction": "tests/envs/mdp/test_model_field.py",
    "envlab.envs.mdp.dr:geom_rgba": "tests/tasks/test_lift_yam.py",
    "envlab.envs.mdp.motion:reset_to_motion_frame": "tests/envs/mdp/test_motion.py",
    "envlab.envs.mdp.randomization:randomize_geom_friction": (
        "tests/envs/mdp/test_randomization_bodies.py"
    ),
    "envlab.envs.mdp.root:base_pos_z": "tests/tasks/test_ant.py",
    **dict.fromkeys(
        (
            "envlab.envs.mdp.commands:orientation_command_error",
            "envlab.envs.mdp.commands:position_command_error",
            "envlab.envs.mdp.commands:position_command_error_tanh",
            "envlab.envs.mdp.commands:position_is_reached",
        ),
        "tests/envs/mdp/test_pose_command.py",
    ),
}
"""Features that no archetype has: single terms, each with the name of its own test."""


def features(task: Task) -> set[str]:
    """Return what a task uses of envlab: its kind, and the types and functions of its terms."""
    cfg = registry.load_env_cfg(task)
    found = {name for name in _named(cfg) if name.startswith("envlab.")} | {task.kind}
    if isinstance(cfg, DirectMarlEnvCfg):
        found.add("several agents")
    if is_dataclass(groups := getattr(cfg, "observations", None)):
        found |= {f"observes {group.name}" for group in fields(groups)}
    return found


def own_code(task: Task) -> set[str]:
    """Return what a task uses of its package: its class, and functions of its terms."""
    names = {name for name in _named(registry.load_env_cfg(task)) if ":" in name}
    own = {name for name in names if name.startswith("envlab_") and not _is_asset(name)}
    entry_point = str(gymnasium.spec(task.id).entry_point)
    return {name for name in own if not name.endswith("Cfg")} | {entry_point}


def _is_asset(name: str) -> bool:
    return name.startswith("envlab_assets")


def _named(value: Any) -> Iterator[str]:
    """Return the names of all types of dataclasses and functions in a configuration."""
    if is_dataclass(value) and not isinstance(value, type):
        yield f"{type(value).__module__}:{type(value).__qualname__}"
        for field in fields(value):
            yield from _named(getattr(value, field.name))
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _named(part)
    elif callable(value):
        yield f"{value.__module__}:{value.__qualname__}"
    elif isinstance(value, str):
        yield value


def every(*tasks: str) -> list[Any]:
    """Return parameters of a test for each task, or of those named; archetypes come by default."""
    named = [registry.get_task(name) for name in tasks] or registry.list_tasks()
    return [
        pytest.param(task, marks=[] if task.id in ARCHETYPES else [pytest.mark.long], id=task.id)
        for task in named
    ]
