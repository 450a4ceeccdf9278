"""Isaac Lab's recorders: what :mod:`envlab.envs.managers.recorder` keeps of an episode."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from envlab.envs.managers.recorder import (
    RecorderManagerBaseCfg,
    RecorderTerm,
    RecorderTermCfg,
    Values,
)


class InitialStateRecorder(RecorderTerm):
    """``initial_state``: the scene as an episode begins, see :meth:`Scene.get_state`."""

    def record_post_reset(self, mask: torch.Tensor) -> tuple[str, Values]:
        return "initial_state", self.env.scene.get_state(is_relative=True)


class PostStepStatesRecorder(RecorderTerm):
    """``states``: the scene after each step, before environments reset."""

    def record_post_step(self) -> tuple[str, Values]:
        return "states", self.env.scene.get_state(is_relative=True)


class PreStepActionsRecorder(RecorderTerm):
    """``actions``: those of the agent."""

    def record_pre_step(self) -> tuple[str, Values]:
        return "actions", self.env.action_manager.action


class PreStepObservationsRecorder(RecorderTerm):
    """``obs``: what the agent observed before it acted, by groups."""

    def record_pre_step(self) -> tuple[str, Values]:
        return "obs", self.env.obs_buf


@dataclass(kw_only=True)
class ActionStateRecorderManagerCfg(RecorderManagerBaseCfg):
    """All of them."""

    record_initial_state: RecorderTermCfg = field(
        default_factory=lambda: RecorderTermCfg(class_type=InitialStateRecorder)
    )
    record_post_step_states: RecorderTermCfg = field(
        default_factory=lambda: RecorderTermCfg(class_type=PostStepStatesRecorder)
    )
    record_pre_step_actions: RecorderTermCfg = field(
        default_factory=lambda: RecorderTermCfg(class_type=PreStepActionsRecorder)
    )
    record_pre_step_observations: RecorderTermCfg = field(
        default_factory=lambda: RecorderTermCfg(class_type=PreStepObservationsRecorder)
    )
