from __future__ import annotations

import logging
import os

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
            "env.scene.num_envs=64",
            "env.sim.dt=0.01",
            "env.rewards.alive.weight=2",
            "env.rewards.alive.func=config_sample:joint_velocity",
            "env.rewards.joint_vel.params.joints=[hinge]",
            "env.sim.gravity.2=-1.62",
            "env.events.push_robot=null",
            "agent.max_iterations=20",
            "agent.algorithm.learning_rate=1e-4",
            "agent.hidden_dims=[256,128,64]",
            "agent.run_name='2024, first'",
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


def test_derived_values_follow_overrides(roots):
    env = compose(roots, ["env.sim.dt=0.01", "env.decimation=4"])["env"]
    assert env.step_dt == pytest.approx(0.04)


def test_a_dict_value_changes_the_keys_it_names(roots):
    env = compose(roots, ["env.scene={num_envs: 8}"])["env"]
    assert env.scene == SceneCfg(num_envs=8)


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
    assert "there already" in refusal(roots, f"+{key}.limit=1")
    assert f"There is no '{key}.limt'" in refusal(roots, f"~{key}.limt")


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


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "env.scene.num_env=64",
            "Override 'env.scene.num_env=64' cannot be applied. There is no 'env.scene.num_env'. "
            "Did you mean env.scene.num_envs?",
        ),
        ("env.num_envs=64", "There is no 'env.num_envs'. Did you mean env.scene.num_envs?"),
        ("agent.algorithm.lerning_rate=1", "Did you mean agent.algorithm.learning_rate?"),
        ("foo.bar=1", "Override 'foo.bar=1' cannot be applied. There is no 'foo.bar'."),
        ("zzz=1", "There is no 'zzz'. Valid are env, agent."),
        ("hydra.run.dir=x", "There is no 'hydra.run.dir'."),
        ("env/scene=x", "There is no 'env/scene'."),
        ("env@agent=x", "There is no 'env@agent'."),
        (
            "+env.scene.num_env=64",
            "Override '+env.scene.num_env=64' cannot be applied. There is no",
        ),
        ("+new.root=1", "Override '+new.root=1' cannot be applied. There is no 'new.root'."),
        (
            "env.scene={num_env: 8}",
            "There is no 'env.scene.num_env'. Did you mean env.scene.num_en",
        ),
        ("env.sim.gravity.3=1", "There is no 'env.sim.gravity.3'."),
        ("env.rewards.alive.params.a=1", "To add a new key, write +env.rewards.alive.params.a=..."),
        (
            "env.step_dt=1",
            "env.step_dt is derived from other settings and cannot be set. Set those",
        ),
        ("env.dt=1", "There is no 'env.dt'. Did you mean env.sim.dt?"),
        ("env.gravity.dt=1", "There is no 'env.gravity.dt'. Did you mean env.sim.dt?"),
        ("env.rewards.aliv.weight=1", "Did you mean env.rewards.alive.weight?"),
        ("~env.rewards.aliv", "There is no 'env.rewards.aliv'. Did you mean env.rewards.alive?"),
    ],
)
def test_an_unknown_key_names_the_nearest_valid_path(roots, override, said):
    assert said in refusal(roots, override)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("env.scene.num_envs=abc", "env.scene.num_envs must be a whole number (int), but is 'abc'"),
        (
            "env.scene.num_envs=1e3",
            "env.scene.num_envs must be a whole number (int), but is 1000.0",
        ),
        (
            "env.scene=3",
            "env.scene must be a group of settings (SceneCfg), but is 3 (int). Set what",
        ),
        ("env.rewards=none", "env.rewards must be a group of settings"),
        ("env.scene=[1]", "env.scene must be a group of settings (SceneCfg), but is [1] (list)."),
        (
            "env.rewards.alive.params=[1]",
            "must be a group of keys and values (dict[str, Any]), but is [1]",
        ),
        (
            "env.sim.gravity={a: 1}",
            "env.sim.gravity must be a list of 3 values (tuple[float, float, float]), but is {'a'",
        ),
        ("~env.sim.gravity.0", "Give the list whole, as env.sim.gravity=[...]."),
        (
            "env.rewards.alive.func=null",
            "module:name, but is null. Correct env.rewards.alive.func.",
        ),
        ("env=null", "env must be a group of settings (BalanceEnvCfg), but is null."),
        ("~env", "env must be a group of settings (BalanceEnvCfg), but is null."),
        ("~env.sim.dt", "env.sim.dt must be a number (float), but is null."),
        ("agent.run_name=2024", "Quote it if it is text: \"agent.run_name='2024'\"."),
        ("env.sim.gravity=[0,0]", "env.sim.gravity must be a list of 3 values"),
        (
            "env.rewards.alive.func=nowhere:f",
            "env.rewards.alive.func: 'nowhere:f' cannot be imported",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_one_sentence(roots, override, said):
    assert said in refusal(roots, override)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("env.scene.num_envs", "Override 'env.scene.num_envs' is malformed: '=' is missing."),
        ("--headless", "Override '--headless' is malformed: '=' is missing."),
        ("env.sim.gravity=[0,1", "is malformed: no viable alternative at input"),
        ("env.sim.dt=half(1)", "is malformed: HydraException while evaluating 'half(1)'"),
        ("=3", "is malformed: the key is missing. Write key=value, such as env.scene.num_envs=64."),
        ("", "is malformed: '=' is missing"),
    ],
)
def test_malformed_text_is_explained(roots, override, said):
    assert said in refusal(roots, override)


@pytest.mark.parametrize("value", ["1,2", "range(1,4)", "choice(1,2)", "interval(0,1)", "glob(*)"])
def test_a_sweep_in_a_single_run_asks_for_m(roots, value):
    assert "Pass -m (--multirun)" in refusal(roots, f"env.seed={value}")


def test_composing_leaves_no_trace(roots, tmp_path, monkeypatch):
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra

    monkeypatch.chdir(tmp_path)
    handlers, level = list(logging.root.handlers), logging.root.level
    compose(roots, ["env.seed=1"])
    assert os.listdir(tmp_path) == []
    assert (logging.root.handlers, logging.root.level) == (handlers, level)
    assert not GlobalHydra.instance().is_initialized()
    assert not [name for name in ConfigStore.instance().repo if "envlab" in name]


def test_composing_inside_a_program_that_uses_hydra_itself(roots):
    import hydra
    from hydra.core.global_hydra import GlobalHydra

    with hydra.initialize(version_base="1.3", config_path=None):
        own = GlobalHydra.instance().hydra
        assert compose(roots, ["env.seed=1"])["env"].seed == 1
        with pytest.raises(ConfigurationError):
            compose(roots, ["env.seed=${nothing}"])
        assert GlobalHydra.instance().hydra is own


@pytest.mark.parametrize(
    ("words", "is_set"),
    [
        ([], False),
        (["env.decimation=4", "env.scene.num_envs_max=3"], False),
        (["env.scene.num_envs=1"], True),
        (["env.scene={num_envs: 1}", "env.decimation=4"], True),
        (["env={scene: {num_envs: 1}}"], True),
        (["env.scene=${other}"], True),
        (["~env.scene.num_envs"], True),
        (["env.scene={}"], False),  # laid over the existing value
        (["env={scene: {spacing: 1}}"], False),
    ],
)
def test_whether_overrides_set_a_value_is_read_off_them(words, is_set):
    assert sets_value(parse_overrides(words), "env.scene.num_envs") == is_set


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


@pytest.mark.parametrize("value", ["interval(0,1)", "glob(*)"])
def test_a_sweep_without_listed_values_is_refused(value):
    with pytest.raises(ConfigurationError, match="cannot be swept, because it lists no values"):
        swept(f"env.sim.dt={value}")
