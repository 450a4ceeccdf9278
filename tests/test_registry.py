"""Tasks as data: listing is light, ids are forgiving, and broken third parties are skipped."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
import subprocess
import sys
import types
import warnings

import gymnasium
import pytest
import torch

from envlab import libraries, registry
from envlab.envs import ManagerEnv
from envlab.errors import ConfigurationError, UnknownTaskError
from envlab.plugins import load_plugins
from envlab.task import ENTRY_POINT_GROUP, Task

CARTPOLE = "Isaac-Cartpole-v0"
DIRECT = "Isaac-Cartpole-Direct-v0"


@pytest.fixture
def rediscover():
    """Make the next listing walk all packages again, and again after the test."""
    before = set(gymnasium.registry)
    load_plugins.cache_clear()
    yield
    load_plugins.cache_clear()
    for added in set(gymnasium.registry) - before:
        del gymnasium.registry[added]


@pytest.fixture
def third_party(monkeypatch, rediscover):
    """Return a function that installs entry points of the group, as ``{name: "module"}``."""

    def install(**values: str) -> None:
        group = ENTRY_POINT_GROUP
        points = [importlib.metadata.EntryPoint(*item, group) for item in values.items()]
        monkeypatch.setattr(
            importlib.metadata,
            "entry_points",
            lambda **query: points if query == {"group": group} else [],
        )

    return install


@pytest.fixture
def package(monkeypatch):
    """Return a function that makes a module whose import registers a task."""

    def make(name: str, task_id: str, **kwargs: str) -> None:
        module = types.ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        gymnasium.register(
            id=task_id,
            entry_point="envlab.envs:ManagerEnv",
            kwargs={"env_cfg_entry_point": f"{name}:Cfg", **kwargs},
        )

    return make


def test_listing_imports_neither_torch_nor_a_simulator():
    script = """
import sys
from envlab import registry
from envlab.cli import main
ids = [task.id for task in registry.list_tasks()]
assert "Isaac-Cartpole-v0" in ids, ids
assert main(["list", "--keyword", "direct"]) == 0
heavy = {"torch", "mujoco", "warp", "mujoco_warp", "rsl_rl", "tensorboard"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert DIRECT in done.stdout
    assert not re.search(rf"^{CARTPOLE}\s", done.stdout, re.MULTILINE)


def test_tasks_are_listed_by_id_with_kind_libraries_and_description():
    by_id = {task.id: task for task in registry.list_tasks()}
    assert list(by_id) == sorted(by_id)
    assert by_id[CARTPOLE].kind == "manager"
    assert by_id[DIRECT].kind == "direct"
    assert "rsl_rl" in by_id[CARTPOLE].libraries
    assert "env" not in by_id[CARTPOLE].libraries
    assert "pole" in by_id[CARTPOLE].description
    assert "CartPole-v1" in gymnasium.registry
    assert "CartPole-v1" not in by_id


def test_each_task_has_an_id_in_numpy_and_is_listed_once():
    ids = [task.id for task in registry.list_tasks()]
    for task_id in ids:
        spec = gymnasium.spec(f"numpy/{task_id}")
        assert spec.kwargs["task"] == task_id
        assert spec.kwargs["action_scale"] > 0
    assert not [task_id for task_id in ids if "/" in task_id]
    for asked in (f"numpy/{CARTPOLE}", f"envlab_tasks:numpy/{CARTPOLE}"):
        with pytest.raises(UnknownTaskError, match=f"in numpy, for gymnasium.*Write {CARTPOLE}"):
            registry.get_task(asked)
        with pytest.raises(UnknownTaskError, match=f"own task. Write --task={CARTPOLE}"):
            registry.get_task(f"gym:{asked}")


def test_a_third_partys_task_has_an_id_in_numpy_however_it_is_registered(rediscover, package):
    kwargs = {"env_cfg_entry_point": "third.party:Cfg"}
    registry.register("Third-Own-v0", "envlab.envs:ManagerEnv", kwargs=kwargs, action_scale=2.0)
    assert gymnasium.spec("numpy/Third-Own-v0").kwargs["action_scale"] == 2.0
    assert gymnasium.spec("Third-Own-v0").vector_entry_point == "envlab.envs:ManagerEnv"
    package("third_plain", "Third-Plain-v0")  # by gymnasium.register, as Isaac Lab's are
    package("third_space", "third/Third-Plain-v0")  # which has a namespace already
    registry.discover()
    assert gymnasium.spec("numpy/Third-Plain-v0").kwargs["task"] == "Third-Plain-v0"


def test_a_keyword_matches_ids_and_descriptions_in_any_case():
    for keyword in ["cartpole-DIRECT", "the POLE falls"]:
        assert [task.id for task in registry.list_tasks(keyword)] == [DIRECT]


def test_an_id_may_lack_its_version_and_name_its_module():
    for task_id in [CARTPOLE, "Isaac-Cartpole", "envlab_tasks:Isaac-Cartpole-v0"]:
        assert registry.get_task(task_id).id == CARTPOLE


def test_isaac_lab_3s_names_lead_to_the_same_tasks():
    for newer, ours in [
        ("IsaacContrib-Cart-Double-Pendulum-Direct", "Isaac-Cart-Double-Pendulum-Direct-v0"),
        ("IsaacContrib-Lift-Cube-Franka-v0", "Isaac-Lift-Cube-Franka-v0"),
        ("Isaac-Reorient-Cube-Allegro", "Isaac-Repose-Cube-Allegro-v0"),
        ("Isaac-Velocity-Flat-UnitreeGo2", "Isaac-Velocity-Flat-Unitree-Go2-v0"),
        ("IsaacContrib-Velocity-Rough-UnitreeGo1", "Isaac-Velocity-Rough-Unitree-Go1-v0"),
        ("Isaac-Velocity-Flat-AnymalD", "Isaac-Velocity-Flat-Anymal-D-v0"),
        ("IsaacContrib-Velocity-Rough-UnitreeA1", "Isaac-Velocity-Rough-Unitree-A1-v0"),
        ("Isaac-Reach-Franka-OSC", "Isaac-Reach-Franka-OSC-v0"),
        ("Isaac-Open-Drawer-Franka-Direct", "Isaac-Franka-Cabinet-Direct-v0"),
        ("Isaac-Open-Drawer-Franka", "Isaac-Open-Drawer-Franka-v0"),
        ("Isaac-Pendulum-MARL-Direct", "Isaac-Cart-Double-Pendulum-Direct-v0"),
        ("Isaac-Shadow-Handover-Direct", "Isaac-Shadow-Hand-Over-Direct-v0"),
    ]:
        assert registry.get_task(newer).id == ours


def test_an_unknown_id_is_answered_with_the_nearest():
    for task_id, nearest in [
        ("Isaac-Cartpol-v0", CARTPOLE),
        ("isaac-cartpole-direct-v0", DIRECT),
        ("Cartpole", CARTPOLE),
    ]:
        with pytest.raises(UnknownTaskError, match=f"Did you mean .*{nearest}.*'envlab list'"):
            registry.get_task(task_id)


def test_an_id_like_no_other_gets_no_guess():
    with pytest.raises(UnknownTaskError, match=r"^There is no task 'zzz'\. 'envlab list' shows"):
        registry.get_task("zzz")


def test_a_module_before_the_id_is_imported(package, monkeypatch, rediscover):
    import_module = registry.importlib.import_module

    def watch(name: str):
        if name == "their_suite":
            package("their_suite", "Their-Task-v3")
        return import_module(name)

    monkeypatch.setattr(registry.importlib, "import_module", watch)
    assert registry.get_task("their_suite:Their-Task-v3").id == "Their-Task-v3"


def test_an_installed_suite_registers_its_tasks(third_party, package):
    package("their_suite", "Their-Task-v0", skrl_mappo_cfg_entry_point="their_suite:agent.yaml")
    third_party(theirs="their_suite")
    assert registry.discover() == {}
    assert registry.get_task("Their-Task").libraries == ["skrl_mappo"]


def test_a_broken_suite_is_reported_and_skipped(third_party, package, caplog):
    package("their_suite", "Their-Task-v0")
    third_party(broken="no_such_suite.tasks", theirs="their_suite")
    failed = registry.discover()
    assert list(failed) == ["no_such_suite.tasks"]
    assert "ModuleNotFoundError: No module named 'no_such_suite'" in failed["no_such_suite.tasks"]
    assert {"Their-Task-v0", CARTPOLE} <= {task.id for task in registry.list_tasks()}
    (record,) = caplog.records  # the packages are walked through only once
    sentence = "no_such_suite.tasks (entry point 'broken' of envlab.tasks) cannot be loaded"
    assert sentence in record.getMessage()


def test_an_installation_without_tasks_names_the_remedy(monkeypatch):
    monkeypatch.setattr(gymnasium, "registry", {})
    with pytest.raises(UnknownTaskError, match=r"nor any other.*'pip install --no-deps -e \.'"):
        registry.get_task(CARTPOLE)


def test_environment_configurations_are_new_every_time():
    task = registry.get_task(CARTPOLE)
    first, second = registry.load_env_cfg(task), registry.load_env_cfg(task)
    assert first == second
    assert first is not second
    first.scene.num_envs = 1
    assert second.scene.num_envs == 4096


def test_agent_values_come_from_the_tasks_yaml():
    task, direct = registry.get_task(CARTPOLE), registry.get_task(DIRECT)
    values = registry.load_agent_values(task, "rsl_rl")
    assert values["experiment_name"] == "cartpole"
    assert values["algorithm"]["learning_rate"] == 1e-3
    assert registry.load_agent_values(direct, "rsl_rl")["experiment_name"] == "cartpole_direct"
    assert registry.load_agent_values(task, "no_library") is None


def test_runs_of_a_task_without_agents_are_in_a_folder_of_its_name():
    assert registry.get_task("Isaac-Reach-Franka-v0").experiment_name == "isaac_reach_franka"


def test_agent_values_may_be_a_dataclass():
    @dataclasses.dataclass
    class AgentCfg:
        learning_rate: float = 0.25

    kwargs = {"rl_cfg_entry_point": AgentCfg}
    task = Task(id="x", kind="x", libraries=[], description="", kwargs=kwargs)
    assert registry.load_agent_values(task, "rl") == {"learning_rate": 0.25}


def test_an_entry_point_that_names_nothing_is_refused():
    with pytest.raises(ConfigurationError, match=r"envlab\.task has no 'NoCfg'"):
        registry.load_entry_point("envlab.task:NoCfg")
    with pytest.raises(ConfigurationError, match="'no_such_suite:Cfg' cannot be imported"):
        registry.load_entry_point("no_such_suite:Cfg")


@pytest.fixture(params=[CARTPOLE, DIRECT])
def task_id(request) -> str:
    registry.discover()
    return request.param


def test_gymnasium_makes_a_task_with_a_configuration(task_id):
    cfg = registry.load_env_cfg(registry.get_task(task_id))
    cfg.scene.num_envs = 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(task_id, cfg=cfg, device="cpu")
    assert env.unwrapped is env  # no wrapper that expects a single environment
    assert env.spec.id == task_id
    assert env.reset(seed=1)[0]["policy"].shape == (3, 4)


def test_gymnasium_makes_vectors_of_tasks(task_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make_vec(task_id, num_envs=4, device="cpu")
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert env.num_envs == 4
    env.reset(seed=1)
    obs, reward, *_ = env.step(torch.zeros(4, 1))
    assert obs["policy"].shape == (4, 4)
    assert reward.shape == (4,)


def test_a_task_makes_itself():
    task = registry.get_task(CARTPOLE)
    env = task.make(registry.load_env_cfg(task), num_envs=2, device="cpu", seed=5)
    assert isinstance(env, ManagerEnv)
    assert env.num_envs == 2
    assert env.random.base_seed == 5


def test_files_may_name_nothing_of_envlab_but_terms_and_tasks():
    trusted = registry.trusted_modules() | libraries.trusted_modules()
    own = {name for name in trusted if name.partition(".")[0].startswith("envlab")}
    assert own == {"envlab.envs.mdp", "envlab_tasks"}
