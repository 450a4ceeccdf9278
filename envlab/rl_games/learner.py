"""rl_games' PPO and SAC as learners with our process group, loop, metrics and checkpoints."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from rl_games.common.schedulers import LinearScheduler
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import wrap_model
from envlab.envs import BatchedEnv
from envlab.learner import Curve, Iteration, IterationRecord, Learner, OnStep
from envlab.precision import compute_in, settle_precision
from envlab.rl_games.cfg import RlGamesCfg
from envlab.rl_games.checks import (
    check_supported,
    fitting_checkpoint,
    supported_configuration,
)
from envlab.rl_games.env import RlGamesVecEnv, library_curves, make_agent, pool_normalisers
from envlab.rl_games.ppo import ContinuousAgent, DiscreteAgent
from envlab.rl_games.recorded_update import RecordedUpdate, obstacle
from envlab.rl_games.sac import SacLearner
from envlab.sim.recording import NewGraphs, cuda_graphs, records_updates
from envlab.state import State
from envlab.training.plan import RunPlan

logger = logging.getLogger(__name__)


def build(plan: RunPlan, env: BatchedEnv, context: DistributedContext) -> Learner:
    """Return the learner of a settled plan."""
    cfg: RlGamesCfg = plan.agent_cfg
    context = plan.learning_context(context)
    check_supported(cfg, env, context)
    if cfg.is_sac:
        records_updates(cfg.graph, context.device, "it is SAC", is_main=context.is_main)
        return SacLearner(env, cfg, context)
    return RlGamesLearner(env, cfg, context, grad_sync=plan.flags.grad_sync)


class RlGamesLearner(Learner):
    """rl_games' PPO.

    Attributes:
        agent: The library's agent.
        env: The environment as the agent sees it.
        context: The process's context.
    """

    STATE = State(
        per_env=("agent.dones",),
        per_env_dim_1=("agent.rnn_states", "agent.central_value_net.rnn_states"),
    )

    def __init__(
        self, env: BatchedEnv, cfg: RlGamesCfg, context: DistributedContext, *, grad_sync: str
    ) -> None:
        """Build the agent, and let it learn together with those of other ranks.

        Args:
            env: The environment.
            cfg: The agent's configuration.
            context: The process's context.
            grad_sync: ``ddp`` or ``library``.

        Raises:
            ConfigurationError: If rl_games refuses the configuration.
        """
        self._config, self.context, self._step_s = cfg.params.config, context, 0.0
        has_central_value = self._config.central_value_config is not None
        self.env = RlGamesVecEnv(env, cfg.params.env, has_central_value=has_central_value)
        uses_ddp = context.is_distributed and grad_sync == "ddp"
        kind = DiscreteAgent if cfg.params.algo.name == "a2c_discrete" else ContinuousAgent
        dtype = settle_precision(cfg.precision, context)
        with supported_configuration():
            self.agent: Any = make_agent(
                lambda params: kind(params, context, uses_ddp=uses_ddp), self.env, cfg, context
            )
            compute_in(self.agent.model, dtype)
            if has_central_value:
                compute_in(self.agent.central_value_net.model, dtype)
            with torch.no_grad():  # incompatible networks fail here
                self._trial_loss(self.agent.model)
                if has_central_value:
                    self._central_trial_loss(self.agent.central_value_net.model)
        if context.is_distributed:
            self._join_ranks()
        if self._config.torch_compile:
            self._compile(self._config.torch_compile)
        reason = "agent.params.config.torch_compile is set" if self._config.torch_compile else None
        reason = reason or obstacle(self.agent)
        if records_updates(cfg.graph, context.device, reason, is_main=context.is_main):
            self.record(is_required=cfg.graph == "on")

    def record(self, new_graphs: NewGraphs = cuda_graphs, *, is_required: bool = False) -> None:
        """Have updates recorded as graphs, see :class:`RecordedUpdate`."""
        if not self.context.is_distributed:  # the library's normalisers replace their moments
            self._pool_normalisers()
        self.agent.recorded = RecordedUpdate(self.agent, new_graphs, is_required=is_required)

    def start(self, total: int) -> None:
        agent = self.agent
        agent.obs = agent.obs_to_tensors(self.env.observations())
        schedules = [agent.scheduler]
        if agent.has_central_value:
            schedules.append(agent.central_value_net.scheduler)
        for schedule in schedules:  # linear ones end with the run, however its length was given
            if isinstance(schedule, LinearScheduler):
                schedule.max_steps, schedule.use_epochs = total, True

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        agent, self.env.on_step = self.agent, on_step
        agent.update_epoch()
        if agent.recorded is not None:
            agent.recorded.begin()
        self._step_s, collect_s, learn_s, _, *lists = agent.train_epoch()
        start = time.perf_counter()
        losses = self._losses(lists)
        learn_s += time.perf_counter() - start
        agent.dataset.update_values_dict(None)  # frees the rollout's memory
        agent.frame += agent.curr_frames * self.context.world_size
        return Iteration(
            frames=agent.curr_frames,
            collect_s=collect_s,
            learn_s=learn_s,
            learning_rate=agent.last_lr,
            losses=losses,
        )

    def curves(self, record: IterationRecord) -> list[Curve]:
        settings = {"info/e_clip": self.agent.e_clip, "info/lr_mul": 1.0}
        if self.agent.has_central_value:
            settings["info/cval_lr"] = self.agent.central_value_net.lr
        return library_curves(record, self._step_s, settings)

    def is_finished(self, record: IterationRecord) -> bool:
        config = self._config
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

    def model_state(self) -> dict[str, Any]:
        agent = self.agent
        state = {
            "networks": agent.model.state_dict(),
            "optimizer": agent.optimizer.state_dict(),
            "scaler": agent.scaler.state_dict(),
            "learning_rate": agent.last_lr,
            "entropy_coef": agent.entropy_coef,
            "epoch": agent.epoch_num,
            "frame": agent.frame,
        }
        if agent.has_central_value:
            net = agent.central_value_net
            state["central_value"] = {
                "networks": net.model.state_dict(),
                "optimizer": net.optimizer.state_dict(),
                "learning_rate": net.lr,
                "epoch": net.epoch_num,
                "frame": net.frame,
            }
        return state

    def all_optimizers(self) -> list[torch.optim.Optimizer]:
        central = [self.agent.central_value_net] if self.agent.has_central_value else []
        return [one.optimizer for one in (self.agent, *central)]

    def follow_rates(self) -> None:
        agent = self.agent
        agent.last_lr = agent.optimizer.param_groups[0]["lr"]
        if agent.has_central_value:
            net = agent.central_value_net
            net.lr = net.optimizer.param_groups[0]["lr"]

    def load_models(self, values: Mapping[str, Any]) -> None:
        agent, state = self.agent, values["model"]
        if agent.recorded is not None:
            agent.recorded.forget()
        with fitting_checkpoint():
            agent.model.load_state_dict(state["networks"])
            agent.optimizer.load_state_dict(state["optimizer"])
            agent.scaler.load_state_dict(state["scaler"])
            if agent.has_central_value:
                net, central = agent.central_value_net, state["central_value"]
                net.model.load_state_dict(central["networks"])
                net.optimizer.load_state_dict(central["optimizer"])
                net.lr, net.epoch_num, net.frame = (
                    central[name] for name in ("learning_rate", "epoch", "frame")
                )
        agent.last_lr, agent.entropy_coef = state["learning_rate"], state["entropy_coef"]
        agent.epoch_num, agent.frame = state["epoch"], state["frame"]

    def _losses(self, lists: Sequence[Any]) -> dict[str, float]:
        """Return this rank's mean losses of an iteration, by the library's names.

        The device is read once, also for the rate of a recorded update.
        """
        agent = self.agent
        named = dict(zip(agent.LOSSES, lists, strict=False)) | agent.aux_loss_dict
        means = [torch.stack(list(values)).detach().mean().double() for values in named.values()]
        recorded = agent.recorded
        rate = [] if recorded is None else [recorded.rate]
        numbers = self.readings.read(torch.stack([*means, *rate]))
        losses = dict(zip(named, numbers, strict=False))
        if recorded is not None:
            recorded.end(numbers[-1])
        if agent.central_loss is not None:
            losses["cval_loss"] = agent.central_loss
        agent.diagnostics.epoch(agent, agent.epoch_num)
        for name, value in getattr(agent.diagnostics, "diag_dict", {}).items():
            losses[name] = float(value)
        return losses

    def _join_ranks(self) -> None:
        """Pool normalisers, and average gradients in the chosen way.

        The agent is built as on one process, and learns of the others here: its constructor would
        open its own group, over NCCL, from the launcher's variables.
        """
        agent, context = self.agent, self.context
        agent.multi_gpu, agent.world_size = True, context.world_size
        agent.global_rank, agent.local_rank = context.rank, context.local_rank
        self._pool_normalisers()
        if agent.has_central_value:
            net = agent.central_value_net
            net.multi_gpu, net.world_size = not agent.uses_ddp, context.world_size
            if agent.uses_ddp:
                net.model = wrap_model(net.model, self._central_trial_loss)
        if agent.uses_ddp:
            agent.model = wrap_model(agent.model, self._trial_loss)

    def _pool_normalisers(self) -> None:
        """Have normalisers count the samples of all ranks, in place."""
        agent = self.agent
        nets = [agent.central_value_net] if agent.has_central_value else []
        for one in (agent, *nets):
            pool_normalisers(one.model, self.context)
            if agent.normalize_value:
                agent.value_mean_std = one.model.value_mean_std

    def _trial_loss(self, model: nn.Module) -> torch.Tensor:
        """Return a number that depends on the same parameters as PPO's loss."""
        agent = self.agent
        batch = self._trial_batch(model, agent.env_info["observation_space"], agent.rnn_states)
        actions = torch.zeros_like(agent.experience_buffer.tensor_dict["actions"][0])
        result = model(batch | {"is_train": True, "prev_actions": actions})
        loss = result["prev_neglogp"].sum() + result["entropy"].sum()
        return loss + result["values"].sum() if agent.has_value_loss else loss

    def _central_trial_loss(self, model: nn.Module) -> torch.Tensor:
        memory = self.agent.central_value_net.rnn_states
        return model(self._trial_batch(model, self.agent.state_space, memory))["values"].sum()

    def _trial_batch(self, model: Any, space: Any, memory: Any) -> dict[str, Any]:
        """Return a step of observations, all 0, which the normaliser does not count."""
        model.train()  # cuDNN computes gradients of recurrent networks only in this mode
        if model.normalize_input:
            model.running_mean_std.eval()
        buffer, num_envs = self.agent.experience_buffer, self.agent.num_actors
        obs = buffer._create_tensor_from_space(space, (num_envs,))
        return {"obs": self.agent._preproc_obs(obs), "rnn_states": memory, "seq_length": 1}

    def _compile(self, mode: bool | str | dict[str, Any]) -> None:
        """Compile in place, so that the names in checkpoints do not change."""
        modes = mode if isinstance(mode, dict) else {"mode": mode}
        actor = modes.get("mode", True)
        critic = modes.get("critic_mode", actor)
        self.agent.model.compile(mode="default" if actor is True else actor)
        if self.agent.has_central_value:
            net = self.agent.central_value_net
            net.model.compile(mode="default" if critic is True else critic)
