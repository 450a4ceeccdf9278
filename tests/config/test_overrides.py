from __future__ import annotations

import logging
import os

import hydra
import pytest
from config_sample import (
    AgentCfg,
    AlgorithmCfg,
    BalanceEnvCfg,
    BalanceRewardsCfg,
    EveryTypeCfg,
    RewardTermCfg,
    SceneCfg,
    is_alive,
    joint_velocity,
)
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra

from envlab.config import compose, expand_sweep, parse_overrides, sets_value
from envlab.errors import ConfigurationError


def refusal(roots, *overrides) -> str:
    with pytest.raises(ConfigurationError) as caught:
        compose(roots, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_overrides_the_configs_are_equal_and_new(roots):
    composed = compose(roots, [])
    assert composed == roots
    assert composed["env"] is not roots["env"]
    assert isinstance(composed["env"].rewards, BalanceRewardsCfg)


def test_overrides_reach_every_root_and_leave_the_originals_alone(roots):
    composed = compose(
        roots,
        [
            *("env.scene={num_envs: 64}", "env.sim.dt=0.01", "env.sim.gravity.2=-1.62"),
            *("env.rewards.alive.weight=2", "env.rewards.alive.func=config_sample:joint_velocity"),
            *("env.rewards.joint_vel.params.joints=[hinge]", "env.events.push_robot=null"),
            *("agent.max_iterations=20", "agent.algorithm.learning_rate=1e-4"),
            *("agent.hidden_dims=[256,128,64]", "agent.run_name='2024, first'"),
        ],
    )
    env, agent = composed["env"], composed["agent"]
    assert env.scene == SceneCfg(num_envs=64)
    assert env.sim.dt == 0.01
    assert env.rewards.alive == RewardTermCfg(func=joint_velocity, weight=2.0)
    assert env.rewards.joint_vel.params["joints"] == ("hinge",)
    assert env.sim.gravity == (0.0, 0.0, -1.62)
    assert env.events.push_robot is None
    assert agent == AgentCfg(
        max_iterations=20,
        run_name="2024, first",
        hidden_dims=[256, 128, 64],
        algorithm=AlgorithmCfg(learning_rate=1e-4),
    )
    assert roots == {"env": BalanceEnvCfg(), "agent": AgentCfg()}


def test_interpolations_resolve(roots):
    composed = compose(roots, ["env.seed=7", "agent.max_iterations=${env.seed}"])
    assert composed["agent"].max_iterations == 7
    assert "env.sed" in refusal(roots, "agent.max_iterations=${env.sed}")


def test_a_yaml_agent_is_overridden_by_its_present_types(env_cfg):
    roots = {"env": env_cfg, "agent": {"params": {"lr": 1e-3, "gamma": 0.99}}}
    assert compose(roots, ["agent.params.lr=1"])["agent"] == {"params": {"lr": 1.0, "gamma": 0.99}}
    assert "agent.params.lr must be a number" in refusal(roots, "agent.params.lr=fast")


def test_a_removed_term_can_be_given_again(roots):
    roots = compose(roots, ["~env.rewards.alive"])
    assert roots["env"].rewards.alive is None
    error = refusal(roots, "env.rewards.alive.weight=1.0")
    assert "'env.rewards.alive' is null. Give it whole, as env.rewards.alive={weight: ...}" in error
    env = compose(roots, ["env.rewards.alive={weight: 3}"])["env"]
    assert env.rewards.alive == RewardTermCfg(func=is_alive, weight=3.0)


def test_plus_adds_to_a_free_dict_and_tilde_removes_from_it(roots):
    key = "env.rewards.alive.params"
    env = compose(roots, [f"+{key}.limit=0.5", f"++{key}.other=[1,2]"])["env"]
    assert env.rewards.alive.params == {"limit": 0.5, "other": [1, 2]}
    roots = {**roots, "env": env}
    env = compose(roots, [f"~{key}.limit", f"++{key}.other=[3]"])["env"]
    assert env.rewards.alive.params == {"other": [3]}
    assert "already exists" in refusal(roots, f"+{key}.limit=1")
    assert f"There is no '{key}.limt'" in refusal(roots, f"~{key}.limt")


def test_an_element_that_an_earlier_override_has_taken_away_is_named(roots):
    message = refusal(roots, "agent.hidden_dims=[32]", "agent.hidden_dims.1=64")
    assert "'agent.hidden_dims.1=64' cannot be applied, because an earlier override" in message
    assert "the list 1 elements" in message


def test_of_several_mistakes_the_first_is_named(roots):
    words = ["agent.max_iterations=many", "env.sim.dt=fast", "env.scene.num_envs=many"]
    for first in range(3):
        key = words[first].partition("=")[0]
        assert f"{key} must be" in refusal(roots, *words[first:])


def test_removing_a_null_value_is_no_error(roots):
    roots = compose(roots, ["~env.rewards.alive"])
    assert compose(roots, ["~env.rewards.alive", "~env.seed"]) == roots
    params = compose(roots, ["~env.rewards.joint_vel.params.limit"])["env"].rewards.joint_vel.params
    assert list(params) == ["joints", "threshold", "count"]


def test_plus_adds_a_typed_term_to_a_dict_of_terms():
    roots = {"env": EveryTypeCfg(required=1)}
    named = compose(roots, ["+env.named.b={mode: RESET}"])["env"].named
    assert list(named) == ["a", "b"]
    assert named["b"].mode.name == "RESET"
    error = refusal(roots, "+env.named.b={mod: RESET}")
    assert "There is no 'env.named.b.mod'. Did you mean env.named.b.mode?" in error


def test_composing_leaves_no_trace(roots, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    handlers, level = list(logging.root.handlers), logging.root.level
    compose(roots, ["env.seed=1"])
    assert os.listdir(tmp_path) == []
    assert (logging.root.handlers, logging.root.level) == (handlers, level)
    assert not GlobalHydra.instance().is_initialized()
    assert not [name for name in ConfigStore.instance().repo if "envlab" in name]


def test_composing_inside_a_program_that_uses_hydra_itself(roots):
    with hydra.initialize(version_base="1.3", config_path=None):
        own = GlobalHydra.instance().hydra
        assert compose(roots, ["env.seed=1"])["env"].seed == 1
        with pytest.raises(ConfigurationError):
            compose(roots, ["env.seed=${nothing}"])
        assert GlobalHydra.instance().hydra is own


def test_whether_overrides_set_a_value_is_read_off_them():
    for is_set, *words in (
        (False,),
        (False, "env.decimation=4", "env.scene.num_envs_max=3"),
        (True, "env.scene.num_envs=1"),
        (True, "env.scene={num_envs: 1}", "env.decimation=4"),
        (True, "env={scene: {num_envs: 1}}"),
        (True, "env.scene=${other}"),
        (True, "~env.scene.num_envs"),
        (False, "env.scene={}"),  # laid over the existing value
        (False, "env={scene: {spacing: 1}}"),
    ):
        assert sets_value(parse_overrides(words), "env.scene.num_envs") == is_set, words


def swept(*words: str) -> list[list[str | None]]:
    """Return the overrides of each run of a sweep, as text."""
    return [[one.input_line for one in run] for run in expand_sweep(parse_overrides(words))]


def test_a_sweep_is_multiplied_out_with_the_last_changing_fastest():
    runs = swept("env.seed=1,2", "agent.run_name=${env.seed}", "env.sim.dt=choice(0.1,0.2)")
    assert runs == [
        ["env.seed=1", "agent.run_name=${env.seed}", "env.sim.dt=0.1"],
        ["env.seed=1", "agent.run_name=${env.seed}", "env.sim.dt=0.2"],
        ["env.seed=2", "agent.run_name=${env.seed}", "env.sim.dt=0.1"],
        ["env.seed=2", "agent.run_name=${env.seed}", "env.sim.dt=0.2"],
    ]


def test_ranges_lists_and_removals_in_a_sweep(roots):
    assert swept("env.seed=range(1,4)") == [["env.seed=1"], ["env.seed=2"], ["env.seed=3"]]
    runs = swept("agent.hidden_dims=[32],[64,64]", "~env.rewards.alive")
    assert runs[1] == ["agent.hidden_dims=[64,64]", "~env.rewards.alive"]
    composed = compose(roots, runs[1])
    assert composed["agent"].hidden_dims == [64, 64]
    assert composed["env"].rewards.alive is None
    assert swept() == [[]]
