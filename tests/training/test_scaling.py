"""Learning rates and batch sizes on more processes: hand-computed, for each library."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from envlab.config import merge
from envlab.errors import ConfigurationError
from envlab.rl_games.cfg import RlGamesCfg
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.skrl.cfg import SkrlCfg
from envlab.training.flags import Flags
from envlab.training.scaling import Scaling, scale, settle_batches

CENTRAL = {"minibatch_size": 64, "learning_rate": 4e-4}


def scaled(cfg: Any, world_size: int, **flags: Any) -> Scaling:
    return scale(settle_batches(cfg, Flags(**flags)), world_size)


def rsl_rl(rule: str) -> RslRlCfg:
    values = {"lr_scaling": rule, "algorithm": {"learning_rate": 1e-3}}
    return merge(RslRlCfg(), values, "agent")


def rl_games(rule: str = "none", **config: Any) -> RlGamesCfg:
    values = {"learning_rate": 1e-3, "minibatch_size": 512, **config}
    return merge(RlGamesCfg(), {"lr_scaling": rule, "params": {"config": values}}, "agent")


def skrl(rule: str = "none", algorithm: str = "sac", **agent: Any) -> SkrlCfg:
    return merge(SkrlCfg.of(algorithm), {"lr_scaling": rule, "agent": agent}, "agent")


@pytest.mark.parametrize(("rule", "factor"), [("none", 1.0), ("linear", 4.0), ("sqrt", 2.0)])
def test_each_rule_multiplies_every_librarys_learning_rates(rule: str, factor: float):
    found = scaled(rsl_rl(rule), 4)
    assert found.agent_cfg.algorithm.learning_rate == 1e-3 * factor
    config = scaled(rl_games(rule, central_value_config=CENTRAL), 4).agent_cfg.params.config
    assert config.learning_rate == 1e-3 * factor
    assert config.central_value_config.learning_rate == 4e-4 * factor
    agent = scaled(skrl(rule, learning_rate=1e-3), 4).agent_cfg.agent
    assert agent["learning_rate"] == 1e-3 * factor
    assert (found.rule, found.factor) == (rule, factor)


def test_learning_rates_of_several_networks_are_all_multiplied():
    rates = {"agent": {"class": "SAC", "learning_rate": [1e-3, 5e-4, 1e-4]}}
    found = scaled(skrl("linear").with_task_values({"lr_scaling": "linear"} | rates), 2)
    assert found.agent_cfg.agent["learning_rate"] == [2e-3, 1e-3, 2e-4]
    cfg = merge(rsl_rl("linear"), {"algorithm": {"rnd_cfg": {"learning_rate": 1e-2}}}, "agent")
    assert scaled(cfg, 2).agent_cfg.algorithm.rnd_cfg["learning_rate"] == 2e-2


def test_a_learning_rate_that_is_not_given_is_asked_for():
    cfg = merge(rsl_rl("linear"), {"algorithm": {"rnd_cfg": {"weight": 1.0}}}, "agent")
    with pytest.raises(ConfigurationError, match=r"algorithm.rnd_cfg.learning_rate is not set"):
        scaled(cfg, 2)


def test_the_requested_scaling_stays_in_the_configuration_of_a_run():
    settled = settle_batches(rl_games("none"), Flags(global_num_envs=64))
    found = scale(settled, 2)
    assert settled.params.config.minibatch_size == 512
    assert found.agent_cfg.params.config.minibatch_size == 256
    assert found.facts == {
        **{"rule": "none", "factor": 1.0, "learning_rates": {}},
        "batch_sizes_per_process": {"params.config.minibatch_size": 256},
    }


def test_a_total_of_environments_divides_batches_that_count_samples():
    found = scaled(rl_games(central_value_config=CENTRAL), 4, global_num_envs=64)
    config = found.agent_cfg.params.config
    assert (config.minibatch_size, config.central_value_config.minibatch_size) == (128, 16)
    agent = scaled(skrl(batch_size=4096), 4, global_num_envs=64).agent_cfg.agent
    assert agent["batch_size"] == 1024
    # Settings that count minibatches, or rows of each environment, need no division.
    assert scaled(rl_games(minibatch_size=None), 4, global_num_envs=64).batch_sizes == {}
    assert scaled(rsl_rl("none"), 4, global_num_envs=64).batch_sizes == {}
    assert scaled(skrl(algorithm="amp"), 2, global_num_envs=64).batch_sizes == {
        "agent.amp_batch_size": 256  # discriminator_batch_size is -1: all samples
    }


def test_environments_per_process_leave_batches_as_they_are():
    assert scaled(rl_games(), 4, num_envs=16).batch_sizes == {}
    assert scaled(rl_games(), 4).batch_sizes == {}
    again = merge(rl_games(), {"batch_sizes": "all"}, "agent")  # of the run that is resumed
    assert scaled(again, 4).batch_sizes == {"params.config.minibatch_size": 128}
    assert scaled(again, 4, num_envs=16).batch_sizes == {}


def test_a_run_that_goes_on_elsewhere_keeps_the_batch_of_all_processes_and_its_rates():
    begun_on_two = merge(rl_games("linear"), {"lr_scaling": "linear"}, "agent")
    for size, minibatch in ((1, 1024), (2, 512), (4, 256)):
        config = scale(begun_on_two, size, 2).agent_cfg.params.config
        assert (config.minibatch_size, config.learning_rate) == (minibatch, 2e-3)
    of_all = merge(rl_games(), {"batch_sizes": "all"}, "agent")
    assert scale(of_all, 4, 2).agent_cfg.params.config.minibatch_size == 128
    with pytest.raises(ConfigurationError, match=r"1024 samples.*or another number of processes"):
        scale(begun_on_two, 3, 2)


def test_a_batch_that_cannot_be_divided_is_refused():
    with pytest.raises(ConfigurationError, match=r"512 samples, which 3 processes.*such as 513"):
        scaled(rl_games(), 3, global_num_envs=63)


def test_one_process_keeps_its_learning_rates_and_says_so(caplog: pytest.LogCaptureFixture):
    logging.getLogger("envlab").propagate = True
    with caplog.at_level(logging.INFO, logger="envlab"):
        found = scaled(rsl_rl("sqrt"), 1)
    assert found.agent_cfg == rsl_rl("sqrt")
    assert "on 1 process the learning rates are multiplied by 1" in caplog.text


MODEL = {
    "optimizer": {"param_groups": [{"lr": 0.1, "initial_lr": 0.2, "betas": [0.9, 0.999]}]},
    "schedulers": {"scheduler": {"base_lrs": [0.2], "_last_lr": [0.1], "last_epoch": 3}},
    "learning_rate": 0.1,
    "numbers": {"policy_learning_rate": {"left": 0.1}},
}


def test_a_checkpoint_of_another_number_of_processes_gets_this_ones_rates():
    found = scaled(rsl_rl("linear"), 4).fit({"learning_rate_factor": 2.0, "model": MODEL}, {})
    assert found["model"] == {
        "optimizer": {"param_groups": [{"lr": 0.2, "initial_lr": 0.4, "betas": [0.9, 0.999]}]},
        "schedulers": {"scheduler": {"base_lrs": [0.4], "_last_lr": [0.2], "last_epoch": 3}},
        "learning_rate": 0.2,
        "numbers": {"policy_learning_rate": {"left": 0.2}},
    }


def test_a_checkpoint_of_the_same_number_of_processes_is_not_touched():
    checkpoint = {"learning_rate_factor": 4.0, "model": MODEL}
    assert scaled(rsl_rl("linear"), 4).fit(checkpoint, {}) is checkpoint


def test_a_resume_with_another_learning_rate_has_it_in_the_same_proportion():
    checkpoint, scaling = {"learning_rate_factor": 1.0, "model": MODEL}, scale(rsl_rl("none"), 1)
    found = scaling.fit(checkpoint, {"agent.algorithm.learning_rate": (1e-3, 5e-4)})
    (group,) = found["model"]["optimizer"]["param_groups"]
    assert (group["lr"], found["model"]["learning_rate"]) == (0.05, 0.05)
    assert scaling.fit(checkpoint, {"agent.algorithm.gamma": (0.99, 0.9)}) is checkpoint


def test_learning_rates_that_change_apart_are_refused():
    scaling = scale(rl_games(central_value_config=CENTRAL), 1)
    changed = {"agent.params.config.learning_rate": (1e-3, 5e-4)}
    with pytest.raises(ConfigurationError, match="Change all by the same factor, or none"):
        scaling.fit({"learning_rate_factor": 1.0, "model": MODEL}, changed)
