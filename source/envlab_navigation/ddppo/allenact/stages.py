"""AllenAct's training pipelines and losses as DD-PPO runs them."""

from __future__ import annotations

from typing import Any

import torch
from allenact.utils.experiment_utils import Builder as PeerBuilder

from envlab.errors import ConfigurationError
from envlab_navigation.ddppo.allenact.model import PeerOutput
from envlab_navigation.ddppo.losses import Measured
from envlab_navigation.ddppo.pipeline import (
    PER_COMPONENT,
    SETTINGS,
    PipelineStage,
    StageComponent,
    TrainingPipeline,
    TrainingSettings,
)
from envlab_navigation.ddppo.schedules import Builder
from envlab_navigation.ddppo.storage import Batch, Output


class PeerLoss:
    """One of AllenAct's ``AbstractActorCriticLoss``, on our batches.

    Its ``loss`` already returns the mean over the samples.
    """

    def __init__(self, loss: Any, actions: Any) -> None:
        """Keep AllenAct's loss, and a function that unflattens actions."""
        self._loss, self._unflatten = loss, actions

    def loss(self, step: int, batch: Batch, output: Output) -> tuple[torch.Tensor, Measured]:
        assert isinstance(output, PeerOutput)
        total, measured, *_ = self._loss.loss(
            step_count=step,
            batch=self._batch(batch),
            actor_critic_output=output.raw,
        )
        if not isinstance(total, torch.Tensor):  # Imitation, where no expert had advice
            total = output.values.sum() * 0.0 + total
        return total, {name: torch.as_tensor(float(value)) for name, value in measured.items()}

    def _batch(self, batch: Batch) -> dict[str, Any]:
        """Return a batch by AllenAct's names; ``(num_steps, num_envs, 1)`` where ours lacks the 1.

        AllenAct 0.5.4, ``RolloutBlockStorage.batched_experience_generator``.
        """
        return {
            "observations": dict(batch.obs),
            "actions": self._unflatten(batch.actions),
            "prev_actions": self._unflatten(batch.previous_actions),
            "values": batch.values.unsqueeze(-1),
            "returns": batch.returns.unsqueeze(-1),
            "masks": (~batch.starts).float().unsqueeze(-1),
            "old_action_log_probs": batch.log_probs,
            "adv_targ": batch.raw_advantages.unsqueeze(-1),
            "norm_adv_targ": batch.advantages.unsqueeze(-1),
            "bsize": batch.starts.numel(),
        }


def pipeline_of_peer(peer: Any, unflatten: Any) -> TrainingPipeline:
    """Return one of AllenAct's ``TrainingPipeline`` as ours.

    Args:
        peer: AllenAct's pipeline.
        unflatten: Turns rows of numbers into actions of the network's space.

    Raises:
        ConfigurationError: If a stage learns from anything but rollouts.
    """
    stages = [_stage(peer, stage, n) for n, stage in enumerate(peer.pipeline_stages, 1)]
    return TrainingPipeline(
        named_losses={
            name: PeerLoss(loss() if isinstance(loss, PeerBuilder) else loss, unflatten)
            for name, loss in peer._named_losses.items()
        },
        pipeline_stages=stages,
        optimizer_builder=_builder(peer.optimizer_builder),
        lr_scheduler_builder=peer.lr_scheduler_builder and _builder(peer.lr_scheduler_builder),
        training_settings=_settings(peer.training_settings, SETTINGS),
    )


def _stage(peer: Any, stage: Any, number: int) -> PipelineStage:
    components = [
        _component(peer, stage_component, stage, number)
        for stage_component in stage.stage_components
    ]
    return PipelineStage(
        loss_names=list(stage.loss_names),
        loss_weights=list(stage.loss_weights),
        max_stage_steps=stage.max_stage_steps,
        teacher_forcing=stage.teacher_forcing,
        early_stopping_criterion=stage.early_stopping_criterion,
        stage_components=components,
        training_settings=_settings(stage.training_settings, SETTINGS),
    )


def _component(peer: Any, component: Any, stage: Any, number: int) -> StageComponent:
    if component.storage_uuid != peer.rollout_storage_uuid:
        raise ConfigurationError(
            f"Stage {number} of the pipeline learns from the storage {component.storage_uuid!r}, "
            "which is filled from a file of demonstrations, but DD-PPO learns from rollouts only. "
            "Learn from the expert as it acts instead: Imitation with teacher_forcing."
        )
    weights = dict(zip(stage.loss_names, stage.loss_weights, strict=True))
    return StageComponent(
        uuid=component.uuid,
        loss_names=list(component.loss_names),
        loss_weights=[weights[name] for name in component.loss_names],
        training_settings=_settings(component.training_settings, PER_COMPONENT),
    )


def _settings(peer: Any, names: tuple[str, ...]) -> TrainingSettings:
    return TrainingSettings(**{name: getattr(peer, name) for name in names})


def _builder(peer: Any) -> Builder:
    return Builder(peer.class_type, peer.kwargs, peer.default)
