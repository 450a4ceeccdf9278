"""rl_games' PPO agents with the statistics and gradients of all ranks, and envlab's loop."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from rl_games.algos_torch.a2c_continuous import A2CAgent
from rl_games.algos_torch.a2c_discrete import DiscreteA2CAgent
from rl_games.common.schedulers import LinearScheduler
from rl_games.common.tr_helpers import DefaultRewardsShaper
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import wrap_model
from envlab.distributed.statistics import pooled_moments
from envlab.envs import VectorEnv
from envlab.rl.learner import Curve, Iteration, IterationRecord, OnStep
from envlab.rl.rl_games.cfg import RlGamesCfg
from envlab.rl.rl_games.checks import fitting_checkpoint, supported_configuration
from envlab.rl.rl_games.curves import library_curves
from envlab.rl.rl_games.env import RlGamesVecEnv, scratch_settings
from envlab.rl.rl_games.normalisers import pool_normalisers

logger = logging.getLogger(__name__)


class PooledAgent:
    """What both PPO agents of rl_games get: statistics and gradients of all ranks, and our loop.

    It comes before rl_games' class among a class's bases, whose attributes it uses.
    """

    LOSSES: ClassVar[tuple[str, ...]]
    """Names of the lists that the library's ``train_epoch`` returns after four durations."""

    def __init__(
        self, env: VectorEnv, cfg: RlGamesCfg, context: DistributedContext, *, grad_sync: str
    ) -> None:
        """Build networks, optimizers and buffers.

        Args:
            env: The environment.
            cfg: The agent's configuration.
            context: The process's context.
            grad_sync: ``ddp`` or ``library``.

        Raises:
            ConfigurationError: If rl_games refuses the configuration.
        """
        self.cfg, self.context = cfg, context
        self._uses_ddp = context.is_distributed and grad_sync == "ddp"
        self._central_loss: float | None = None
        params = cfg.for_library()
        has_central_value = cfg.params.config.central_value_config is not None
        vec_env = RlGamesVecEnv(env, cfg.params.env, has_central_value=has_central_value)
        with supported_configuration(), scratch_settings(vec_env, context) as settings:
            self._shaper = DefaultRewardsShaper(**params["config"]["reward_shaper"])
            params["config"] |= settings | {"reward_shaper": self._shape_rewards}
            if context.device.type == "cpu":  # else torch warns of each forward pass
                for group in (params["config"], params["config"].get("central_value_config", {})):
                    group["mixed_precision"] = False
            super().__init__("run", params)  # type: ignore[call-arg]
            self.writer.close()
            self.init_tensors()
            self._try()
        self.writer = None
        if self.has_central_value:
            self.central_value_net.writter = None
        critic = self.central_value_net if self.has_central_value else self
        # A recurrent critic cannot be asked about another state without disturbing its memory, so
        # it keeps rl_games' own bootstrap.
        self._bootstraps = self.value_bootstrap and not critic.is_rnn
        vec_env.tells_time_outs = not self._bootstraps
        if cfg.params.config.torch_compile:
            self._compile(cfg.params.config.torch_compile)
        if context.is_distributed:
            self._join_ranks()

    if TYPE_CHECKING:
        writer: Any
        model: Any
        frame: int
        last_lr: float
        multi_gpu: bool
        normalize_advantage: bool

        def __getattr__(self, name: str) -> Any:
            """Attributes that are not here are those of rl_games' class."""

    def start(self, total: int) -> None:
        """See :class:`envlab.rl.learner.Learner`."""
        self._follow_budget(total)
        self.obs = self.obs_to_tensors(self.vec_env.observations())

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        """See :class:`envlab.rl.learner.Learner`."""
        self.vec_env.on_step = on_step
        self.update_epoch()
        self._step_s, collect_s, learn_s, _, *losses = self.train_epoch()
        self.dataset.update_values_dict(None)
        self.frame += self.curr_frames * self.context.world_size
        return Iteration(
            frames=self.curr_frames,
            collect_s=collect_s,
            learn_s=learn_s,
            learning_rate=self.last_lr,
            losses=self._losses(losses),
        )

    def curves(self, record: IterationRecord) -> list[Curve]:
        """See :class:`envlab.rl.learner.Learner`."""
        settings = {"info/e_clip": self.e_clip, "info/lr_mul": 1.0}
        if self.has_central_value:
            settings["info/cval_lr"] = self.central_value_net.lr
        return library_curves(record, self._step_s, settings)

    def model_state(self) -> dict[str, Any]:
        """See :class:`envlab.rl.loop.training.Learner`."""
        state = {
            "networks": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "learning_rate": self.last_lr,
            "entropy_coef": self.entropy_coef,
            "epoch": self.epoch_num,
            "frame": self.frame,
        }
        if self.has_central_value:
            net = self.central_value_net
            state["central_value"] = {
                "networks": net.model.state_dict(),
                "optimizer": net.optimizer.state_dict(),
                "learning_rate": net.lr,
                "epoch": net.epoch_num,
                "frame": net.frame,
            }
        return state

    def load_models(self, values: Mapping[str, Any]) -> None:
        """See :class:`envlab.rl.loop.training.Learner`."""
        state = values["model"]
        with fitting_checkpoint():
            self.model.load_state_dict(state["networks"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.scaler.load_state_dict(state["scaler"])
            if self.has_central_value:
                net, central = self.central_value_net, state["central_value"]
                net.model.load_state_dict(central["networks"])
                net.optimizer.load_state_dict(central["optimizer"])
                net.lr, net.epoch_num, net.frame = (
                    central[name] for name in ("learning_rate", "epoch", "frame")
                )
        self.last_lr, self.entropy_coef = state["learning_rate"], state["entropy_coef"]
        self.epoch_num, self.frame = state["epoch"], state["frame"]

    def rank_state(self) -> dict[str, Any]:
        """Return which episodes have just ended, and the memories of recurrent networks."""
        central = self.central_value_net.rnn_states if self.has_central_value else None
        return {
            "dones": self.dones.cpu().clone(),
            "memory": _copied(self.rnn_states, "cpu"),
            "central_memory": _copied(central, "cpu"),
        }

    def set_rank_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`rank_state` returned."""
        self.dones = state["dones"].to(self.ppo_device)
        self.rnn_states = _copied(state["memory"], self.ppo_device)
        if self.has_central_value:
            memory = _copied(state["central_memory"], self.ppo_device)
            self.central_value_net.rnn_states = memory

    def noise_keys(self) -> dict[str, Any]:
        """Return nothing: actions are sampled with torch's own generator."""
        return {}

    # What the library calls ---------------------------------------------------------------------

    def prepare_dataset(self, batch_dict: dict[str, Any]) -> None:
        wanted, self.normalize_advantage = self.normalize_advantage, False
        super().prepare_dataset(batch_dict)  # type: ignore[misc]
        self.normalize_advantage = wanted
        if wanted:
            values = self.dataset.values_dict
            mean, std = pooled_moments(values["advantages"], self.context)
            values["advantages"] = (values["advantages"] - mean) / (std + 1e-8)

    def trancate_gradients_and_step(self) -> None:
        is_distributed = self.multi_gpu
        if self._uses_ddp:
            self.multi_gpu = False  # the gradients are averaged already
        super().trancate_gradients_and_step()  # type: ignore[misc]
        self.multi_gpu = is_distributed

    def update_lr(self, lr: float) -> None:
        for (
            group
        ) in self.optimizer.param_groups:  # the same on all ranks: no broadcast, no rounding
            group["lr"] = lr

    def train_central_value(self) -> float:
        net = self.central_value_net
        self._central_loss = float(super().train_central_value())  # type: ignore[misc]
        for group in net.optimizer.param_groups:  # the library's reduction has rounded it
            group["lr"] = net.lr
        return self._central_loss

    def _shape_rewards(self, rewards: torch.Tensor) -> torch.Tensor:
        """Scale the rewards of a step, and add the value of states that a time limit ended.

        The library calls it once a step, right after the environment's.

        Args:
            rewards: ``(num_envs, 1)``.
        """
        shaped = self._shaper(rewards)
        if self._bootstraps and self.vec_env.final_obs is not None:
            values = self.get_values(self.obs_to_tensors(self.vec_env.final_obs))
            shaped = shaped + self.gamma * values * self.vec_env.time_outs.unsqueeze(1)
        return shaped

    # --------------------------------------------------------------------------------------------

    def _join_ranks(self) -> None:
        """Pool normalisers, and average gradients by the chosen way."""
        self.multi_gpu, self.world_size = True, self.context.world_size
        self.global_rank, self.local_rank = self.context.rank, self.context.local_rank
        pool_normalisers(self.model, self.context)
        values = self.model
        if self.has_central_value:
            net = self.central_value_net
            pool_normalisers(net.model, self.context)
            values = net.model
            net.multi_gpu, net.world_size = not self._uses_ddp, self.context.world_size
            if self._uses_ddp:
                net.model = wrap_model(net.model, self._central_trial_loss)
        if self.normalize_value:
            self.value_mean_std = values.value_mean_std
        if self._uses_ddp:
            self.model = wrap_model(self.model, self._trial_loss)

    @torch.no_grad()
    def _try(self) -> None:
        """Call the networks once, so that those that do not fit together fail early."""
        self._trial_loss(self.model)
        if self.has_central_value:
            self._central_trial_loss(self.central_value_net.model)

    def _trial_loss(self, model: nn.Module) -> torch.Tensor:
        """Return a number that depends on the parameters that PPO's loss depends on."""
        batch = self._trial_batch(model, self.env_info["observation_space"], self.rnn_states)
        actions = torch.zeros_like(self.experience_buffer.tensor_dict["actions"][0])
        result = model(batch | {"is_train": True, "prev_actions": actions})
        loss = result["prev_neglogp"].sum() + result["entropy"].sum()
        return loss + result["values"].sum() if self.has_value_loss else loss

    def _central_trial_loss(self, model: nn.Module) -> torch.Tensor:
        memory = self.central_value_net.rnn_states
        return model(self._trial_batch(model, self.state_space, memory))["values"].sum()

    def _trial_batch(self, model: nn.Module, space: Any, memory: Any) -> dict[str, Any]:
        """Return a step of observations, all 0, with the normaliser set not to count them."""
        model.train()  # cuDNN computes gradients of recurrent networks in this mode only
        inner: Any = model
        if inner.normalize_input:
            inner.running_mean_std.eval()
        obs = self.experience_buffer._create_tensor_from_space(space, (self.num_actors,))
        return {"obs": obs, "rnn_states": memory, "seq_length": 1}

    def _compile(self, mode: bool | str | dict[str, Any]) -> None:
        """Compile in place, so that the names in checkpoints stay as they are."""
        modes = mode if isinstance(mode, dict) else {"mode": mode}
        actor = modes.get("mode", True)
        critic = modes.get("critic_mode", actor)
        self.model.compile(mode="default" if actor is True else actor)
        if self.has_central_value:
            self.central_value_net.model.compile(mode="default" if critic is True else critic)

    def _follow_budget(self, total: int) -> None:
        """Let linear schedules end where the run does, whichever way its budget was given."""
        schedules = [self.scheduler]
        if self.has_central_value:
            schedules.append(self.central_value_net.scheduler)
        for schedule in schedules:
            if isinstance(schedule, LinearScheduler):
                schedule.max_steps, schedule.use_epochs = total, True

    def _losses(self, lists: Sequence[Any]) -> dict[str, float]:
        """Return this rank's mean losses of an iteration, by the library's names."""
        named = dict(zip(self.LOSSES, lists, strict=False))
        losses = {name: _mean(values) for name, values in named.items()}
        for name, values in self.aux_loss_dict.items():
            losses[name] = _mean(values)
        if self._central_loss is not None:
            losses["cval_loss"] = self._central_loss
        self.diagnostics.epoch(self, self.epoch_num)
        for name, value in getattr(self.diagnostics, "diag_dict", {}).items():
            losses[name] = float(value)
        return losses

    def is_finished(self, record: IterationRecord) -> bool:
        """Return whether the mean return is above ``score_to_win``."""
        config = self.cfg.params.config
        if record.mean_return is None or record.iteration < config.save_best_after:
            return False
        if record.mean_return <= config.score_to_win:
            return False
        logger.info(
            "Stopping at iteration %d: the mean return %.3f is above score_to_win, %.3f.",
            record.iteration,
            record.mean_return,
            config.score_to_win,
        )
        return True


class ContinuousAgent(PooledAgent, A2CAgent):
    """PPO for actions that are numbers."""

    LOSSES = ("a_loss", "c_loss", "bounds_loss", "entropy", "kl")


class DiscreteAgent(PooledAgent, DiscreteA2CAgent):
    """PPO for actions that are choices."""

    LOSSES = ("a_loss", "c_loss", "entropy", "kl")


def _copied(memory: Any, device: Any) -> Any:
    """Return copies of a recurrent memory, which is None or several tensors."""
    return None if memory is None else tuple(part.clone().to(device) for part in memory)


def _mean(losses: Sequence[torch.Tensor]) -> float:
    """Return the mean of losses, which still know how they came about."""
    return float(torch.stack(list(losses)).detach().mean())
