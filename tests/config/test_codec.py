from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from config_sample import (
    BalanceEnvCfg,
    BalanceRewardsCfg,
    EnvCfg,
    EventTermCfg,
    EveryTypeCfg,
    Mode,
    Network,
    RewardTermCfg,
    SceneCfg,
    SimCfg,
    WideNetwork,
    is_alive,
    joint_velocity,
)

from envlab.config import from_dict, merge, to_dict
from envlab.errors import ConfigurationError


def test_importing_the_package_is_cheap():
    code = (
        "import sys, envlab.config; "
        "print(sorted({'torch', 'mujoco', 'hydra', 'omegaconf', 'gymnasium'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_to_dict_writes_plain_data(env_cfg):
    plain = to_dict(env_cfg)
    assert list(plain) == ["seed", "decimation", "debug", "scene", "sim", "rewards", "events"]
    assert plain["sim"]["gravity"] == [0.0, 0.0, -9.81]
    assert plain["rewards"]["joint_vel"]["func"] == "config_sample:joint_velocity"
    assert plain["rewards"]["joint_vel"]["params"]["joints"] == ["slider", "hinge"]
    assert plain["events"]["push_robot"]["mode"] == "INTERVAL"
    assert "derived" not in to_dict(EveryTypeCfg(required=1))


def refusal(write: Callable[[], object]) -> str:
    """Return the sentence with which a configuration is refused."""
    with pytest.raises(ConfigurationError) as caught:
        write()
    return str(caught.value)


def test_to_dict_names_values_that_it_cannot_write():
    for said, value in {
        "env.anything holds <object": object(),
        "no module:name leads to it": lambda: 0,
        "env.anything has the key 1 (int)": {1: 2},
        "env.anything.1 holds {3}": [0, {3}],
    }.items():
        cfg = EveryTypeCfg(required=1, anything=value)
        assert said in refusal(functools.partial(to_dict, cfg)), said


def test_every_type_survives_the_round_trip():
    cfg = EveryTypeCfg(
        required=3,
        flag_or_count=True,
        scale={"hinge": 2.0},
        terms=[RewardTermCfg(weight=3.0), RewardTermCfg(func=joint_velocity)],
        named={"b": EventTermCfg(mode=Mode.RESET)},
        mode=None,
        network=WideNetwork,
    )
    back = from_dict(EveryTypeCfg, to_dict(cfg))
    assert back == cfg
    assert back.flag_or_count is True
    assert back.nested == {"f": is_alive, "m": Mode.RESET}
    assert merge(EveryTypeCfg(required=0), to_dict(cfg), given_keys=True) == cfg


def test_from_dict_takes_values_over_defaults():
    cfg = from_dict(EnvCfg, {"scene": {"num_envs": 8}, "sim": {"dt": 1}})
    assert cfg == EnvCfg(scene=SceneCfg(num_envs=8), sim=SimCfg(dt=1.0))
    assert type(cfg.sim.dt) is float


WRONG: dict[str, dict[str, Any]] = {
    "env.rewards.alive.weight must be a number": {"rewards": {"alive": {"weight": "abc"}}},
    "env.scene.num_envs must be a whole number (int), but is 2.5": {"scene": {"num_envs": 2.5}},
    "env.scene.num_envs must be a whole number (int), but is T": {"scene": {"num_envs": True}},
    "env.sim.dt must be a number (float), but is False (bool).": {"sim": {"dt": False}},
    "env.debug must be true or false (bool), but is 1 (int).": {"debug": 1},
    "env.sim.gravity must be a list of 3 values": {"sim": {"gravity": [0, 1]}},
    "env.sim.gravity must be a list of 3 values (tuple": {"sim": {"gravity": "abc"}},
    "env.sim.gravity.2 must be a number (float)": {"sim": {"gravity": [0, 1, "x"]}},
    "one of 'mujoco', 'mujoco_warp', but is 'mujoko' (str). Did": {"sim": {"backend": "mujoko"}},
    "There is no 'env.xyz'. Valid are env.seed, env.decimation,": {"xyz": 1},
    "env.step_dt is derived from other settings and cannot be set.": {"step_dt": 1},
    "env.rewards.alive.func: 'config": {"rewards": {"alive": {"func": "config_sample:is_aliv"}}},
    "must be a function or class as module:name, but is 3": {"rewards": {"alive": {"func": 3}}},
    "one of RESET, INTERVAL, but is 'OFTEN'": {"events": {"push_robot": {"mode": "OFTEN"}}},
    "env.events must be a group of settings (BalanceEventsCfg)": {"events": 3},
}
UNUSUAL_TYPES: dict[str, dict[str, Any]] = {
    "env.scale must be a number (float) or a group of keys and values": {"scale": "a"},
    "There is no 'env.named.b.mod'. Did you mean env.named.b.mode?": {"named": {"b": {"mod": 1}}},
    "env.terms.0.weight must be a number": {"terms": [{"weight": "x"}]},
    "env.network must be a class as module:name": {"network": "config_sample:is_alive"},
    "env.network must be a class as module:name, but": {"network": "config_sample:Mode"},
    "env.text must be text (str), but is 2024 (int). Quote it": {"text": 2024},
    "env.derived is derived from other settings": {"derived": 8},
}


def test_a_wrong_key_or_value_is_one_sentence_with_its_path():
    for said, values in WRONG.items():
        assert said in refusal(functools.partial(from_dict, BalanceEnvCfg, values))
    for said, values in UNUSUAL_TYPES.items():
        values = {"required": 1, **values}
        assert said in refusal(functools.partial(from_dict, EveryTypeCfg, values))
    missing = refusal(lambda: from_dict(EveryTypeCfg, {}))
    assert "env.required is missing: EveryTypeCfg has no default for it." in missing


def test_merge_returns_a_new_config_and_keeps_subclasses(env_cfg):
    merged = merge(env_cfg, {"rewards": {"alive": {"weight": 2}}})
    assert type(merged) is BalanceEnvCfg
    assert type(merged.rewards) is BalanceRewardsCfg
    assert merged.rewards.alive.weight == 2.0
    assert merged.rewards.joint_vel.func is joint_velocity
    assert env_cfg == BalanceEnvCfg()
    assert merged.scene is not env_cfg.scene


def test_null_removes_a_term_and_only_a_term(env_cfg):
    merged = merge(env_cfg, {"rewards": {"alive": None}, "events": {"push_robot": None}})
    assert merged.rewards.alive is None
    assert merged.events.push_robot is None
    again = merge(merged, {"rewards": {"alive": {"weight": 4.0}}})
    assert again.rewards.alive == RewardTermCfg(weight=4.0)
    assert "env.sim must be a group of" in refusal(lambda: merge(env_cfg, {"sim": None}))


def test_values_of_a_free_dict_keep_their_types(env_cfg):
    def params(**values):
        changes = {"rewards": {"joint_vel": {"params": values}}}
        return merge(env_cfg, changes).rewards.joint_vel.params

    found = params(threshold=2)
    assert found == {"joints": ("slider", "hinge"), "threshold": 2.0, "limit": None, "count": 2}
    assert type(found["threshold"]) is float
    assert params(joints=["hinge"])["joints"] == ("hinge",)
    assert params(limit="anything")["limit"] == "anything"
    for name, value, said in (
        ("threshold", "high", "params.threshold must be a number"),
        ("count", 0.5, "params.count must be a whole number"),
        ("joints", [1], "params.joints.0 must be text"),
        ("treshold", 1.0, "Did you mean env.rewards.joint_vel.params.thr"),
    ):
        assert said in refusal(functools.partial(params, **{name: value}))


def test_a_whole_config_decides_the_keys_of_free_dicts(env_cfg):
    values = {"rewards": {"joint_vel": {"params": {"new": 1}}}}
    merged = merge(env_cfg, values, given_keys=True)
    assert merged.rewards.joint_vel.params == {"new": 1}


def test_a_plain_dict_is_merged_by_its_present_types():
    agent = {"params": {"lr": 1e-3, "name": "ppo", "mlp": {"units": [32, 32]}}}
    merged = merge(agent, {"params": {"lr": 1, "mlp": {"units": [64]}}}, "agent")
    assert merged == {"params": {"lr": 1.0, "name": "ppo", "mlp": {"units": [64]}}}
    said = refusal(lambda: merge(agent, {"params": {"name": 3}}, "agent"))
    assert "agent.params.name must be text" in said


def test_list_elements_keep_their_classes():
    @dataclass(kw_only=True)
    class HeavyTermCfg(RewardTermCfg):
        mass_kg: float = 1.0

    cfg = EveryTypeCfg(required=1, terms=[HeavyTermCfg(), RewardTermCfg()])
    merged = merge(cfg, {"terms": [{"mass_kg": 2}, {"weight": 3}]})
    assert merged.terms == [HeavyTermCfg(mass_kg=2.0), RewardTermCfg(weight=3.0)]


def test_an_unchanged_value_stays_even_where_its_annotation_is_sloppy():
    @dataclass
    class SloppyCfg:
        size: float = None  # type: ignore[assignment]
        count: int = 1

    assert merge(SloppyCfg(), {"size": None, "count": 2}) == SloppyCfg(count=2)


def test_a_value_that_post_init_undoes_is_an_error():
    merged = merge(PinnedCfg(), {"episode_length_s": 3})
    assert merged.episode_length_s == 3.0
    for write in (functools.partial(merge, PinnedCfg()), functools.partial(from_dict, PinnedCfg)):
        with pytest.raises(ConfigurationError, match=r"env\.sim has no .* __post_init__ of Pinned"):
            write({"sim": {"dt": 0.5}})


@dataclass(kw_only=True)
class PinnedCfg:
    episode_length_s: float = 5.0
    sim: SimCfg = field(default_factory=SimCfg)
    network: type[Network] = Network

    def __post_init__(self):
        self.sim.dt = 0.01
