"""Builds a session's network, pipeline and learner from a configuration or an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from torch import optim

from envlab.agent_cfg import set_value
from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.errors import ConfigurationError
from envlab.precision import settle_precision
from envlab.training.plan import RunPlan
from envlab_navigation.ddppo.auxiliary import AuxiliaryLoss, InverseDynamics
from envlab_navigation.ddppo.cfg import DdppoCfg
from envlab_navigation.ddppo.checks import check_pipeline, check_supported
from envlab_navigation.ddppo.experiment_file import calling
from envlab_navigation.ddppo.experiment_words import experiment_of, pipeline_of_experiment
from envlab_navigation.ddppo.flags import DdppoFlags
from envlab_navigation.ddppo.learner import DdppoLearner
from envlab_navigation.ddppo.losses import PPO
from envlab_navigation.ddppo.model import RecurrentActorCritic
from envlab_navigation.ddppo.pipeline import PipelineStage, TrainingPipeline
from envlab_navigation.ddppo.preemption import Preemption
from envlab_navigation.ddppo.replay import read_rank_steps
from envlab_navigation.ddppo.schedules import Builder
from envlab_navigation.ddppo.teacher import make_teacher

ENDLESS = 2**62
"""Steps of a stage that ends with the run's budget."""


def pipeline_of(cfg: DdppoCfg) -> TrainingPipeline:
    """Return PPO as a pipeline of one stage, which ends with the run's budget."""
    algorithm = cfg.algorithm
    loss = PPO(
        clip_param=algorithm.clip_param,
        value_loss_coef=algorithm.value_loss_coef,
        entropy_coef=algorithm.entropy_coef,
        use_clipped_value_loss=algorithm.use_clipped_value_loss,
    )
    return TrainingPipeline(
        named_losses={"ppo": loss},
        pipeline_stages=[PipelineStage(loss_names=["ppo"], max_stage_steps=ENDLESS)],
        # One kernel for all parameters: an update takes 7 % less of a CPU's time.
        optimizer_builder=Builder(
            optim.Adam, {"lr": algorithm.learning_rate, "eps": 1e-5, "fused": True}
        ),
        num_steps=cfg.num_steps_per_env,
        num_mini_batch=algorithm.num_mini_batches,
        update_repeats=algorithm.num_learning_epochs,
        gamma=algorithm.gamma,
        gae_lambda=algorithm.lam,
        max_grad_norm=algorithm.max_grad_norm,
    )


def model_of(cfg: DdppoCfg, env: BatchedEnv, context: DistributedContext) -> RecurrentActorCritic:
    """Return the configured network; every rank must call this."""
    has_images = any(values.dim() == 4 for values in env.obs_buf.values())
    precision = "float32" if cfg.precision == "auto" and not has_images else cfg.precision
    dtype = settle_precision(precision, context)
    return RecurrentActorCritic(env, dtype=dtype, **asdict(cfg.model))


def make_model(plan: RunPlan, env: BatchedEnv, context: DistributedContext) -> Any:
    """Return the experiment's network, or the configured one; every rank must call this.

    Raises:
        ConfigurationError: If the experiment fails to make one.
    """
    flags = cast(DdppoFlags, plan.flags)
    experiment = experiment_of(flags)
    if experiment is not None:
        file = flags.experiment_file
        made = calling(file, "in create_model", lambda: experiment.create_model(env))
        if made is not None:
            return made
    return model_of(plan.agent_cfg, env, context)


def make_pipeline(plan: RunPlan, env: BatchedEnv, model: Any) -> TrainingPipeline:
    """Return the experiment's pipeline, or the configured one, after checks that it fits.

    Raises:
        ConfigurationError: If it does not fit.
    """
    flags = cast(DdppoFlags, plan.flags)
    experiment = experiment_of(flags)
    if experiment is None:
        return pipeline_of(plan.agent_cfg)
    pipeline = pipeline_of_experiment(experiment, flags.experiment_file)
    check_pipeline(pipeline, env)
    for loss in pipeline.losses:
        if isinstance(loss, AuxiliaryLoss):
            tells_action = plan.agent_cfg.model.sees_last_action and not model.images
            if isinstance(loss, InverseDynamics) and tells_action:
                raise ConfigurationError(
                    "InverseDynamics would learn to copy: without images, the features reveal the "
                    "last action. Set agent.model.sees_last_action=false, or leave the loss out."
                )
            loss.prepare(model.num_features, model.hidden_dim, env.single_action_space)
    return pipeline


def build(plan: RunPlan, env: BatchedEnv, context: DistributedContext) -> DdppoLearner:
    """Return the learner of a settled plan.

    Raises:
        ConfigurationError: If the configuration cannot train on these environments.
    """
    cfg: DdppoCfg = plan.agent_cfg
    flags = cast(DdppoFlags, plan.flags)
    if experiment_of(flags) is not None:  # its pipeline decides these
        cfg = set_value(cfg, "algorithm.schedule", "fixed")
        cfg = set_value(cfg, "algorithm.num_mini_batches", 1)
    check_supported(cfg, env, flags)
    replayed = read_rank_steps(flags.replay_rollouts, context)
    model = make_model(plan, env, context)
    pipeline = make_pipeline(plan, env, model)
    asks = any(stage.needs_expert for stage in pipeline.pipeline_stages)
    learner = DdppoLearner(
        env,
        cfg,
        context,
        model=model,
        pipeline=pipeline,
        preemption=Preemption(context, cfg.preemption_threshold, replayed=replayed),
        teacher=make_teacher(plan.task, env) if asks else None,
    )
    learner.frame_budget = flags.max_frames
    return learner


def old_state(old: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a rank remembers, from what it did in checkpoints of format 1."""
    expert = {name.lstrip("_"): values for name, values in old.get("teacher", {}).items()}
    return {**old, "teacher": {"expert": expert} if "teacher" in old else None}
