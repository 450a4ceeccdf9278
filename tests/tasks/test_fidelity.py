"""Tasks and agents have Isaac Lab's and mjlab's numbers: composed configurations against tables.

The tables, isaac_lab.yaml and mjlab.yaml, give each number's place in the wheel. Where ours
differs on purpose, they give ours too; the reason is in the task's docstring and in
docs/tasks.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envlab.config import load_yaml, to_dict
from envlab.distributed.context import DistributedContext
from envlab.envs.entities import joint_values
from envlab.envs.scene import load_model
from envlab.libraries import libraries
from envlab.registry import get_task, list_tasks, load_agent_values, load_env_cfg
from envlab.training.flags import Flags

TABLES = [load_yaml(Path(__file__).with_name(f"{name}.yaml")) for name in ("isaac_lab", "mjlab")]
TASKS, AGENTS = (
    {name: entry for table in TABLES for name, entry in table[part].items()}
    for part in ("environments", "agents")
)
OWNERS = ("Isaac-", *(f"Mjlab-{kind}-" for kind in ("Velocity", "Cartpole", "Lift", "Multi")))
"""Beginnings of the ids that the tables must have."""
OURS_ALONE = {"Isaac-Reach-Franka-IK-Abs-Play-v0", "Isaac-Reach-Franka-IK-Rel-Play-v0"}
"""Ids that Isaac Lab does not have."""
AGENTS_ALONE = {
    *((f"Mjlab-Velocity-{ground}-Unitree-G1", "fast_sac_holosoma") for ground in ("Flat", "Rough")),
    *(("Isaac-Ant-v0", "fast_sac"), ("Isaac-Cart-Double-Pendulum-Direct-v0", "rsl_rl")),
    ("Isaac-Cartpole-Depth-Camera-Direct-v0", "rsl_rl"),
    ("Isaac-Cartpole-RGB-v0", "rsl_rl"),
    ("Isaac-Cartpole-RGB-v0", "skrl"),
    ("Isaac-Cartpole-v0", "rsl_rl_distillation"),
    ("Isaac-Franka-Cabinet-Direct-v0", "rsl_rl_distillation"),
    ("Isaac-Lift-Cube-Franka-v0", "rsl_rl_distillation"),
    ("Mjlab-Velocity-Flat-Unitree-G1", "rsl_rl_distillation"),
    ("Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0", "rl_games"),
    ("Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0", "skrl_dqn"),
    ("Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0", "rl_games"),
    *(
        (f"Isaac-Velocity-{ground}-{robot}-v0", "rl_games")
        for ground in ("Flat", "Rough")
        for robot in ("Anymal-D", "Unitree-Go1", "Unitree-Go2", "H1", "G1")
    ),
}
"""Agents that Isaac Lab does not have."""
SECTIONS = (
    *("observations.policy", "observations.critic", "observations.camera", "actions"),
    *("commands", "events"),
    *("rewards", "terminations", "curriculum"),
)
CHANGES_A_TERM = ("weight", "scale", "clip", "noise", "modifiers", "time_out")
"""Settings that a term of ours has only if the table does."""


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return the leaves of nested dicts and lists of dicts by dotted path."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from flat(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for index, part in enumerate(value):
            yield from flat(part, f"{path}[{index}]")
    else:
        yield path, value


def expected(entry: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """Return the values expected of ours: Isaac Lab's, except those the table gives for ours."""
    values: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    for one in reversed(list(likenesses(entry, table))):
        for name, value in one.get("values", {}).items():
            values.pop(name, None)
            if value is not None:
                values[name] = value
        ours |= one.get("ours", {})
    return {path.replace(".[", "["): value for path, value in flat(values)} | ours


def likenesses(entry: dict[str, Any], table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return an entry, the one that it is like, the one that that is like, and so on."""
    yield entry
    if "like" in entry:
        yield from likenesses(table[entry["like"]], table)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right or math.isclose(left, right, rel_tol=1e-9)
    return bool(left == right)


def differences(entry: dict[str, Any], ours: dict[str, Any], table: dict[str, Any]) -> list[str]:
    found = {
        path: value.rpartition(":")[2] if path.endswith("func") else value
        for path, value in flat(ours)
    }
    return [
        f"{path} is {found.get(path, 'not there')}, in {entry['file']} {value}"
        for path, value in expected(entry, table).items()
        if not (path in found and same(found[path], value))
    ]


@pytest.fixture(scope="module")
def ours() -> dict[str, dict[str, Any]]:
    """Our configurations by the tables' tasks."""
    return {name: to_dict(load_env_cfg(get_task(name))) for name in TASKS}


def test_a_task_has_isaac_labs_numbers(ours):
    found = {name: differences(entry, ours[name], TASKS) for name, entry in TASKS.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_task_has_isaac_labs_terms_and_no_others(ours):
    for name in TASKS:
        if "Direct" not in name:
            check_terms(name, ours[name])


def check_terms(task_id: str, cfg: dict[str, Any]) -> None:
    """Compare the names and settings of a task's terms with the table's."""
    entry = TASKS[task_id]
    table = expected(entry, TASKS) | entry.get(
        "joints", TASKS[entry.get("like", task_id)].get("joints", {})
    )
    for section in SECTIONS:
        part: Any = cfg
        for name in section.split("."):
            part = (part or {}).get(name)
        terms = {name: term for name, term in (part or {}).items() if isinstance(term, dict)}
        depth = section.count(".") + 1
        named = {
            path.split(".")[depth]
            for path in table
            if path.startswith(f"{section}.") and path.count(".") > depth
        }
        assert set(terms) == named, (task_id, section)
        for name, term in terms.items():
            for setting in CHANGES_A_TERM:
                path = f"{section}.{name}.{setting}"
                if not any(known.startswith(path) for known in table):
                    assert term.get(setting) in (None, False), (task_id, path)


def test_a_task_has_mjlabs_values_of_each_joint(ours):
    for name, entry in TASKS.items():
        if "joints" not in entry:
            continue
        model = load_model(ours[name]["scene"]["model"])
        joints = [model.joint(i).name for i in range(1, model.njnt)]
        values = dict(flat_by_joint(ours[name], entry["joints"]))
        for path, by_expression in entry["joints"].items():
            expected = pytest.approx(joint_values(by_expression, joints), rel=1e-5)
            assert joint_values(values[path], joints) == expected, (name, path)


def flat_by_joint(cfg: dict[str, Any], paths: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return the dicts of values by joint at ``paths``."""
    for path in paths:
        part: Any = cfg
        for name in path.split("."):
            part = part[name]
        yield path, part


def test_an_agent_has_isaac_labs_numbers():
    found = {}
    for task_id, agents in AGENTS.items():
        for library, entry in agents.items():
            name = next(name for name in libraries() if library.startswith(name))
            flags = Flags(algorithm=library[len(name) + 1 :], ml_framework="torch")
            task_values = load_agent_values(get_task(task_id), library)
            bare = libraries()[name].default_cfg(flags)
            cfg = bare.suited(task_values).with_task_values(task_values)
            table = {name: agents[library] for name, agents in AGENTS.items() if library in agents}
            found[task_id, library] = differences(entry, to_dict(cfg, "agent"), table)
    assert {key: lines for key, lines in found.items() if lines} == {}


def test_every_task_and_agent_is_in_the_table_or_ours_alone():
    tasks = {task.id: task for task in list_tasks() if task.id.startswith(OWNERS)}
    assert set(TASKS) | OURS_ALONE == set(tasks)
    files = {
        tasks[name].kwargs[f"{key}_cfg_entry_point"]
        for name, key in [*((t, k) for t in AGENTS for k in AGENTS[t]), *AGENTS_ALONE]
    }
    missing = {
        (task.id, key)
        for task in tasks.values()
        for key in task.libraries
        if task.kwargs[f"{key}_cfg_entry_point"] not in files
    }
    assert missing == set()


def test_a_tracking_robots_actions_reach_a_quarter_of_its_torque_limits():
    task = get_task("Mjlab-Tracking-Flat-Unitree-G1")
    env = task.make(load_env_cfg(task), context=DistributedContext.single("cpu"), num_envs=1)
    settings = env.action_manager.describe()["joint_pos"]
    for name, scale in zip(settings["joint_names"], settings["scale"], strict=True):
        actuator = env.sim.model.actuator(name)
        expected = 0.25 * actuator.forcerange[1] / actuator.gainprm[0]
        assert scale == pytest.approx(expected, rel=1e-5), name
