"""skrl's configuration: filled up with its defaults, strict, and fluent in skrl 1.x."""

from __future__ import annotations

import logging

import pytest

from envlab.config import compose, from_dict, merge, to_dict
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_agent_values
from envlab.skrl.agents import library_settings, schedule
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.library import ALGORITHMS, COMPONENTS, component, component_arguments


def overridden(cfg: SkrlCfg, *overrides: str) -> SkrlCfg:
    composed: SkrlCfg = compose({"agent": cfg}, overrides)["agent"]
    return composed


def test_every_algorithm_has_a_whole_configuration_that_survives_a_file():
    for algorithm in ALGORITHMS:
        cfg = SkrlCfg.of(algorithm).with_task_values({})
        values = to_dict(cfg, "agent")
        assert merge(SkrlCfg(), values, "agent", given_keys=True) == cfg, algorithm
        assert cfg.origin == {"algorithm": algorithm, "ml_framework": "torch"}
        assert cfg.is_multi_agent == (algorithm in ("ippo", "mappo"))
        assert cfg.resolved().num_steps_per_env > 0


def test_agent_files_name_their_own_algorithm():
    files = {
        "skrl": ("Isaac-Cartpole-Direct-v0", "ppo"),
        "skrl_dqn": ("Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0", "dqn"),
        "skrl_ippo": ("Isaac-Cart-Double-Pendulum-Direct-v0", "ippo"),
        "skrl_mappo": ("Isaac-Cart-Double-Pendulum-Direct-v0", "mappo"),
    }
    for key, (task, algorithm) in files.items():
        values = load_agent_values(get_task(task), key)
        assert values is not None
        cfg = SkrlCfg().with_task_values(values)
        assert (cfg.algorithm, cfg.registry_key) == (algorithm, key)
        assert cfg.resolved().run_name == f"{algorithm}_torch"


def test_a_task_keeps_skrls_defaults_for_values_it_does_not_set():
    cfg = SkrlCfg().with_task_values({"agent": {"class": "sac", "polyak": 0.1}})
    assert (cfg.agent["polyak"], cfg.agent["batch_size"], cfg.agent["class"]) == (0.1, 64, "SAC")
    assert set(cfg.models) > {"policy", "critic_1", "target_critic_2"}


def test_a_scheduler_is_filled_up_with_its_own_defaults():
    agent = {"learning_rate_scheduler": "KLAdaptiveLR", "learning_rate_scheduler_kwargs": None}
    cfg = SkrlCfg().with_task_values({"agent": agent})
    cfg = overridden(cfg, "agent.agent.learning_rate_scheduler_kwargs.min_lr=1e-5")
    kwargs = cfg.agent["learning_rate_scheduler_kwargs"]
    assert (kwargs["kl_threshold"], kwargs["min_lr"], kwargs["max_lr"]) == (0.008, 1e-5, 1e-2)


def test_names_of_skrl_1_are_understood(caplog: pytest.LogCaptureFixture):
    logging.getLogger("envlab").propagate = True
    old = {
        **{"class": "PPO", "lambda": 0.9, "clip_predicted_values": True, "value_clip": 0.3},
        **{"state_preprocessor": "RunningStandardScaler", "state_preprocessor_kwargs": None},
        **{"random_timesteps": 0, "learning_starts": 0},
    }
    with caplog.at_level(logging.INFO):
        agent = SkrlCfg().with_task_values({"agent": old}).agent
    assert (agent["gae_lambda"], agent["value_clip"]) == (0.9, 0.3)
    assert agent["observation_preprocessor"] == "RunningStandardScaler"
    assert agent["state_preprocessor"] is None
    assert "agent.lambda is agent.gae_lambda" in caplog.text
    assert "agent.random_timesteps has no effect: an algorithm with rollouts" in caplog.text
    # Names for other meanings.
    agent = {"clip_predicted_values": False, "shared_state_preprocessor": "RunningStandardScaler"}
    cfg = SkrlCfg().with_task_values({"agent": agent})
    assert cfg.agent["value_clip"] == 0.0
    assert cfg.agent["state_preprocessor"] == "RunningStandardScaler"
    both = {"state_preprocessor": None, "observation_preprocessor": "RunningStandardScaler"}
    assert SkrlCfg().with_task_values({"agent": both}).agent["state_preprocessor"] is None


def test_rewards_of_amp_of_skrl_1_are_understood():
    old = {"task_reward_weight": 0.5, "style_reward_weight": 3.0, "discriminator_reward_scale": 4.0}
    scaler = {"amp_state_preprocessor": "RunningStandardScaler"}
    agent = SkrlCfg().with_task_values({"agent": {"class": "AMP", **scaler, **old}}).agent
    assert (agent["task_reward_scale"], agent["style_reward_scale"]) == (0.5, 12.0)
    assert agent["amp_observation_preprocessor"] == "RunningStandardScaler"
    # By 1.4's defaults the weight is 1 and the scale 2.
    for name, scale in (("style_reward_weight", 6.0), ("discriminator_reward_scale", 3.0)):
        agent = SkrlCfg().with_task_values({"agent": {"class": "AMP", name: 3.0}}).agent
        assert agent["style_reward_scale"] == scale


def test_iterations_and_checkpoints_follow_timesteps_until_they_are_set():
    cfg = overridden(SkrlCfg(), "agent.trainer.timesteps=2400", "agent.agent.rollouts=32")
    assert cfg.resolved().max_iterations == 75
    assert cfg.max_iterations is None
    assert overridden(cfg, "agent.max_iterations=7").resolved().max_iterations == 7
    # Checkpoints follow skrl's interval in timesteps.
    for interval, save_interval in {"auto": 30, "320": 20, "0": 300, "1": 1}.items():
        cfg = overridden(SkrlCfg(), f"agent.agent.experiment.checkpoint_interval={interval}")
        assert cfg.resolved().save_interval == save_interval, interval
        assert overridden(cfg, "agent.save_interval=4").resolved().save_interval == 4


def test_experiment_and_run_name_are_isaac_labs():
    keys = ["agent.agent.experiment.directory=mine", "agent.agent.experiment.experiment_name=a"]
    cfg = overridden(SkrlCfg(), *keys)
    assert (cfg.experiment_name, cfg.run_name) == ("mine", "ppo_torch_a")


UNKNOWN = {
    "agent.agent.learning_rat=1": "agent.agent.learning_rate",
    "agent.agent.rollouts=many": "agent.agent.rollouts",
    "agent.directory=a": "Did you mean agent.agent.experiment.directory",
    "agent.experiment_name=a": r"Set agent\.agent\.experiment\.directory instead",
    "agent.models.policy.initial_log_sd=0": "agent.models.policy.initial_log_std",
    "agent.trainer.timestep=1": "agent.trainer.timesteps",
}
WITHOUT_EFFECT = {
    "agent.num_steps_per_env=8": "learns after agent.agent.rollouts = 16 steps",
    "agent.agent.class=SAC": "Choose it by --algorithm sac",
    "agent.agent.class=PPOO": "'PPOO', but must be one of .* Did you mean ppo",
    "agent.agent.experiment.wandb=true": "add --logger wandb",
    "agent.agent.experiment.store_separately=true": "a checkpoint is one file",
    "agent.trainer.class=ParallelTrainer": "only 'SequentialTrainer' is supported",
}


def test_settings_that_are_unknown_contradict_or_have_no_effect_are_refused():
    for override, message in UNKNOWN.items():
        with pytest.raises(ConfigurationError, match=message):
            overridden(SkrlCfg(), override)
    for override, message in WITHOUT_EFFECT.items():
        cfg = overridden(SkrlCfg(), override)
        with pytest.raises(ConfigurationError, match=message):
            cfg.resolved()


def test_mixed_precision_is_refused_on_jax():
    cfg = overridden(SkrlCfg(), "agent.ml_framework=jax")
    assert cfg.resolved().ml_framework == "jax"
    with pytest.raises(ConfigurationError, match="which skrl has on PyTorch only"):
        overridden(cfg, "agent.agent.mixed_precision=true").resolved()


def test_a_mistake_in_an_agent_file_is_one_sentence():
    mistakes = {
        "agent.agent has no .*gamma|gamma": {"agent": {"gamma": 0.9}},
        "Did you mean ppo": {"agent": {"class": "PPPO"}},
        "Did you mean GaussianMixin": {"models": {"policy": {"class": "GausianMixin"}}},
        "models": {"modles": {}},
    }
    for message, values in mistakes.items():
        with pytest.raises(ConfigurationError, match=message):
            SkrlCfg().with_task_values(values)
    agent = {"class": "PPO", "rewards_shaper": "math:sqrt", "rewards_shaper_scale": 0.5}
    with pytest.raises(ConfigurationError, match="are both set"):
        library_settings(agent, component)


def test_every_component_that_can_be_named_exists():
    assert [component(name, "agent").__name__ for name in COMPONENTS] == list(COMPONENTS)


def test_names_become_classes_and_formulas_functions_without_evaluation():
    agent = {
        "class": "DQN",
        "learning_rate_scheduler": ["StepLR", None],
        "learning_rate_scheduler_kwargs": {"step_size": 2},
        "exploration_scheduler": "max(0.1, 1.0 - 2 * timestep / timesteps)",
        "rewards_shaper": None,
        "rewards_shaper_scale": 0.5,
    }
    settings = library_settings(agent, component)
    first, second = settings["learning_rate_scheduler"]
    assert (first.__name__, second) == ("StepLR", None)
    assert settings["exploration_scheduler"](25, 100) == 0.5
    assert settings["exploration_scheduler"](90, 100) == 0.1
    assert settings["rewards_shaper"](4.0, 0, 0) == 2.0
    assert "class" not in settings


def test_a_formula_can_only_calculate():
    name = "agent.agent.exploration_scheduler"
    for formula in ("__import__('os')", "timestep +", "steps", "max(x=1)", "'a'", "timestep.real"):
        with pytest.raises(ConfigurationError, match="must be a formula in timestep and timesteps"):
            pytest.fail(f"{formula}: {schedule(formula, name)}")


def test_arguments_of_a_replaced_component_are_dropped_and_missing_ones_named():
    filled = {"kl_threshold": 0.008, "min_lr": 1e-6}
    path = "agent.agent.learning_rate_scheduler"
    with pytest.raises(ConfigurationError, match="needs step_size"):
        component_arguments("StepLR", filled, path)
    arguments = component_arguments("StepLR", {**filled, "step_size": 3}, path)
    assert arguments == {"step_size": 3, "gamma": 0.1}
    with pytest.raises(ConfigurationError, match=r"kl_threshold is 0\.5, but StepLR takes only"):
        component_arguments("StepLR", {"kl_threshold": 0.5, "step_size": 3}, path)


def test_the_defaults_are_typed():
    """skrl writes some numbers as integers that may be fractions."""
    assert overridden(SkrlCfg(), "agent.models.policy.min_log_std=-5.5")
    assert overridden(SkrlCfg.of("sac"), "agent.agent.grad_norm_clip=0.5")
    assert from_dict(SkrlCfg, {"seed": 3}, "agent").seed == 3


def test_networks_of_skrl_1_read_observations():
    text = "concatenate([STATES, OTHER_STATES])"
    network = [{"name": "net", "input": "STATES", "layers": [8], "activations": "elu"}]
    network.append({"name": "joined", "input": text, "layers": [8], "activations": "elu"})
    models = {
        "separate": True,
        "policy": {"class": "GaussianMixin", "network": network, "output": "ACTIONS"},
        "value": {"class": "DeterministicMixin", "network": network, "output": "ONE"},
    }
    observations = {"PPO": "OBSERVATIONS", "IPPO": "OBSERVATIONS"}
    for algorithm, value in (observations | {"MAPPO": "STATES"}).items():
        values = {"models": models, "agent": {"class": algorithm, "lambda": 0.9}}
        cfg = SkrlCfg().with_task_values(values)
        assert [layer["input"] for layer in cfg.models["policy"]["network"]] == [
            *("OBSERVATIONS", "concatenate([OBSERVATIONS, OTHER_STATES])")
        ]
        assert cfg.models["value"]["network"][0]["input"] == value, algorithm
        assert network[0]["input"] == "STATES"  # the file's values stay as they are


def test_amp_says_that_it_bootstraps_at_time_limits_whatever_the_setting(
    caplog: pytest.LogCaptureFixture,
):
    assert SkrlCfg.of("amp").agent["time_limit_bootstrap"]
    assert not SkrlCfg.of("ppo").agent["time_limit_bootstrap"]
    values = {"agent": {"class": "AMP", "time_limit_bootstrap": False}}
    cfg = SkrlCfg().with_task_values(values).resolved()
    assert cfg.agent["time_limit_bootstrap"]
    assert "AMP adds the value of the last state at every time limit" in caplog.text
