"""Settings that rl_games cannot handle here are one sentence, before anything is written."""

from __future__ import annotations

import sys

import pytest
import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.errors import ConfigurationError, EnvlabError
from envlab.libraries import get_library
from envlab.registry import get_task, load_agent_values
from envlab.rl_games.cfg import RlGamesCfg
from envlab.rl_games.checks import check_supported
from envlab.rl_games.learner import RlGamesLearner
from tests.rl_games.first_update import agent_cfg
from tests.small_runs import env_of
from tests.trained import session_of

TASK = "Isaac-Cartpole-v0"
CONFIG = "agent.params.config"


REFUSED = {
    f"{CONFIG}.minibatch_size=30": f"Use {CONFIG}.minibatch_size=16.",
    f"{CONFIG}.minibatch_size=0": f"Use {CONFIG}.minibatch_size=1.",
    f"{CONFIG}.seq_length=3": "seq_length is 3, but must divide the 64 samples",
    f"{CONFIG}.mini_epochs=0": "mini_epochs is 0, but must be greater than 0",
    f"{CONFIG}.max_frames=100": "max_frames in the configuration is 100, but --max_frames ends a",
    f"{CONFIG}.normalize_rms_advantage=true": "rl_games 1.6.5 fails with it",
    f"{CONFIG}.use_action_masks=true": "have no action masks",
    f"{CONFIG}.self_play_config={{update_score: 1}}": "self-play needs an environment",
    f"{CONFIG}.epochs_between_resets=2": "env.episode_length_s ends episodes",
    f"{CONFIG}.population_based_training=true": "population_based_training in the conf",
    "agent.params.load_checkpoint=true": "--resume and --checkpoint say what is loaded",
    f"{CONFIG}.mini_epoch=2": f"Did you mean {CONFIG}.mini_epochs?",
    "agent.seed=7": "Set agent.params.seed instead.",
    "agent.max_iterations=7": f"Set {CONFIG}.max_epochs instead.",
    "agent.gamma=0.9": f"Did you mean {CONFIG}.gamma?",
    f"{CONFIG}.lr_schedule=adaptiv": "lr_schedule must be",
    f"+{CONFIG}.reward_shaper.scal=1.0": "rl_games refuses",
    "+agent.params.network.space.discrete={}": "rl_games refuses",
    "agent.params.algo.name=a2c_continous": "Did you mean a2c_continuous?",
    "agent.params.algo.name=a2c_discrete": "the task's actions are Box",
    "agent.params.model.name=continuous_a2c": "Choose a2c_continuous or sac with the model",
    "agent.params.env.clip_actions=inf": "actions in [-1, 1] are scaled to that bound",
    "agent.params.network.mlp.activation=gelux": "rl_games refuses",
    "agent.params.env.obs_groups={obs: [camera]}": "the task observes policy",
    "+agent.params.config.central_value_config={mini_epochs: 1}": "obs_groups.states is",
}


@pytest.fixture(scope="module")
def env() -> VectorEnv:
    return env_of(TASK)


def build_from(env: VectorEnv, words: list[str]) -> RlGamesLearner:
    """Return the learner of a command line."""
    session = session_of("rl_games", [f"--task={TASK}", "--device=cpu", "--num_envs=4", *words])
    learner: RlGamesLearner = get_library("rl_games").load("build")(
        session, env, DistributedContext.single("cpu")
    )
    return learner


def test_what_it_cannot_train_is_one_sentence(env: VectorEnv):
    for override, message in REFUSED.items():
        given = [] if "minibatch_size" in override else [f"{CONFIG}.minibatch_size=64"]
        with pytest.raises(EnvlabError) as caught:
            pytest.fail(f"{override}: {build_from(env, [*given, override])}")
        assert message in str(caught.value), override
        assert "\n" not in str(caught.value), override


def test_what_differs_between_ranks_is_refused(env: VectorEnv):
    ranks = DistributedContext(rank=0, world_size=2)
    plain = merge(RlGamesCfg(), {"params": {"env": {"clip_actions": 1.0}}}, "agent")
    check_supported(plain, env, ranks)
    central = {"central_value_config": {"network": {"normalization": "batch_norm"}}}
    refused = {
        "which rl_games trains on one process only: 2 processes": {
            "algo": {"name": "sac"},
            "model": {"name": "soft_actor_critic"},
        },
        "on one process only": {"config": {"torch_compile": True}},
        "Use layer_norm": {"network": {"normalization": "batch_norm"}},
        "central_value_config.network.normalization": {"config": central},
    }
    for message, values in refused.items():
        cfg = merge(plain, {"params": values}, "agent", given_keys=True)
        with pytest.raises(ConfigurationError, match=message):
            check_supported(cfg, env, ranks)


def test_settings_of_the_process_are_left_alone(env: VectorEnv):
    """The library's Runner, which sets them, is not even imported."""

    def settings() -> list[object]:
        backends = torch.backends
        return [
            torch.get_num_threads(),
            torch.get_float32_matmul_precision(),
            backends.cudnn.benchmark,
            backends.cudnn.allow_tf32,
            backends.cuda.matmul.allow_tf32,
            str(torch.tensor([1 / 3])),
        ]

    before = settings()
    RlGamesLearner(env, agent_cfg(4), DistributedContext.single("cpu"), grad_sync="ddp")
    assert settings() == before
    assert "rl_games.torch_runner" not in sys.modules


def test_a_tasks_file_replaces_networks_as_a_whole():
    values = load_agent_values(get_task(TASK), "rl_games")
    assert values is not None
    values["params"]["network"] = {"name": "resnet_actor_critic", "cnn": {"conv_depths": [16]}}
    cfg = RlGamesCfg().with_task_values(values)
    assert cfg.params.network == values["params"]["network"]
    assert cfg.params.config.critic_coef == 4.0


def test_the_librarys_save_frequency_sets_ours_unless_that_is_given():
    values = {"params": {"config": {"save_frequency": 25}}}
    assert RlGamesCfg().with_task_values(values).save_interval == 25
    assert RlGamesCfg().with_task_values({**values, "save_interval": 10}).save_interval == 10


def test_keys_of_isaac_labs_files_are_known():
    """The parts of them that differ from task to task, all at once."""
    central = {
        **{"minibatch_size": 32768, "mini_epochs": 4, "learning_rate": 5e-4, "clip_value": True},
        **{"lr_schedule": "adaptive", "schedule_type": "standard", "kl_threshold": 0.016},
        **{"normalize_input": True, "truncate_grads": True},
        "network": {"name": "actor_critic", "central_value": True},
    }
    config = {
        **{"name": "ant_direct", "env_name": "rlgpu", "device": "cuda:0", "device_name": "cuda:0"},
        **{"multi_gpu": False, "ppo": True, "mixed_precision": True, "num_actors": -1},
        **{"schedule_type": "legacy", "score_to_win": 20000, "save_best_after": 100},
        **{"save_frequency": 50, "central_value_config": central},
        "env_config": None,  # "env_config:" with nothing behind it
        "player": {"deterministic": True, "games_num": 100000, "print_stats": True},
    }
    values = {"params": {"config": config, "load_checkpoint": False, "load_path": ""}}
    cfg = RlGamesCfg().with_task_values(values)
    assert (cfg.experiment_name, cfg.save_interval) == ("ant_direct", 50)
    library = cfg.for_library()["config"]
    assert library["central_value_config"]["minibatch_size"] == 32768
    assert "env_config" not in library  # rl_games would unpack null


def test_a_key_at_the_wrong_depth_of_a_file_is_answered_with_the_right_one():
    mistakes = {
        "agent.seed is derived .* Set agent.params.seed instead": {"seed": 3},
        "no 'agent.gamma'. Did you mean agent.params.config.gamma": {"gamma": 0.9},
    }
    for said, values in mistakes.items():
        with pytest.raises(ConfigurationError, match=said):
            RlGamesCfg().with_task_values(values)
