"""rsl_rl 5.5.1 on envlab: what the library lacks across ranks is added here, by subclassing only.

Gaps of rsl_rl 5.5.1 that this file closes:

- Its runner hard-codes NCCL and requires ``cuda:LOCAL_RANK``: :class:`Runner` uses our context.
- It averages gradients by hand; the policy is wrapped in ``DistributedDataParallel`` instead
  (``--grad_sync library`` keeps its own way, with the same result).
- It normalises advantages with each rank's own mean and deviation: :class:`DistributedPPO` pools
  them.
- It bootstraps time limits from the state before the last step: here from the final observation.
- Its logger sees rank 0's environments only: :class:`IterationLog` sums up all ranks.
- It wants images as channels, height, width; and steps encoders that actor and critic share twice.
- It resumes at the iteration it had finished, with counters and generators lost, saves in place and
  loads with pickle: checkpoints are ours.
- It never leaves the process group: the context does.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from gymnasium import spaces
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.utils import reduce_gradients_in_buckets
from tensordict import TensorDict

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import wrap_actor_critic
from envlab.distributed.statistics import pooled_moments
from envlab.envs import VectorEnv
from envlab.errors import CheckpointError, ConfigurationError
from envlab.rl.command.launch import run_training
from envlab.rl.command.session import Session
from envlab.rl.loop.metrics import Iteration
from envlab.rl.loop.training import Training
from envlab.rl.rsl_rl.cfg import RslRlCfg

logger = logging.getLogger(__name__)

LIBRARY = "rsl_rl"


class RslRlVecEnv(VecEnv):
    """A :class:`VectorEnv` as rsl_rl wants it."""

    def __init__(self, env: VectorEnv, clip_actions: float | None = None) -> None:
        self.env = env
        self.cfg = env.cfg
        self.num_envs = env.num_envs
        self.num_actions = env.actions.shape[1]
        self.max_episode_length = env.max_episode_length
        self.device = env.device
        self._clip_actions = clip_actions

    @property
    def unwrapped(self) -> VectorEnv:
        """The environment; random network distillation reads its ``step_dt``."""
        return self.env

    @property
    def episode_length_buf(self) -> torch.Tensor:  # type: ignore[override]
        return self.env.episode_length_buf

    @episode_length_buf.setter
    def episode_length_buf(self, values: torch.Tensor) -> None:
        self.env.episode_length_buf = values

    def get_observations(self) -> TensorDict:
        return self._pack(self.env.obs_buf)

    def step(
        self, actions: torch.Tensor
    ) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        if self._clip_actions is not None:
            actions = actions.clamp(-self._clip_actions, self._clip_actions)
        obs, reward, terminated, truncated, info = self.env.step(actions)
        extras: dict[str, Any] = {"time_outs": truncated.float(), "info": info}
        if "final_obs" in info:
            extras["final_obs"] = self._pack(info["final_obs"])
        return self._pack(obs), reward, terminated | truncated, extras

    def _pack(self, obs: dict[str, torch.Tensor]) -> TensorDict:
        return pack(obs).to(self.device)


def pack(obs: Mapping[str, torch.Tensor]) -> TensorDict:
    """Return observations as rsl_rl has them: an image's channels come before height and width."""
    groups = {
        name: values.permute(0, 3, 1, 2) if values.dim() == 4 else values
        for name, values in obs.items()
    }
    return TensorDict(groups, batch_size=[len(next(iter(groups.values())))])


class DistributedPPO(PPO):
    """PPO whose statistics and gradients are those of all ranks."""

    actor: Any
    critic: Any
    normalize_advantage_per_mini_batch: bool

    def __init__(
        self, *args: Any, context: DistributedContext, grad_sync: str, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        for group in self.optimizer.param_groups:  # shared encoders are listed, and stepped, twice
            group["params"] = list(dict.fromkeys(group["params"]))
        self.context = context
        self._uses_ddp = context.is_distributed and grad_sync == "ddp"

    def compile(self, mode: str | None = None) -> None:
        super().compile(mode)
        if self._uses_ddp:
            self.actor, self.critic = wrap_actor_critic(self.actor, self.critic)

    def reduce_parameters(self) -> None:
        if not self._uses_ddp:
            super().reduce_parameters()
        elif self.rnd:  # its predictor has an optimizer of its own and is not in the DDP module
            reduce_gradients_in_buckets(
                self.rnd.predictor.parameters(), self.gpu_world_size, self.grad_reduce_bucket_mb
            )

    def process_env_step(
        self, obs: TensorDict, rewards: torch.Tensor, dones: torch.Tensor, extras: dict[str, Any]
    ) -> None:
        # A recurrent critic cannot be asked about another state without disturbing its memory, so
        # it keeps rsl_rl's own bootstrap.
        if not self.critic.is_recurrent:
            time_outs = extras.pop("time_outs")
            final_obs = extras.get("final_obs")
            if final_obs is not None:
                values = self.critic(final_obs.to(self.device)).detach().squeeze(1)
                rewards = rewards + self.gamma * values * time_outs.to(self.device)
        super().process_env_step(obs, rewards, dones, extras)

    def compute_returns(self, obs: TensorDict) -> None:
        per_mini_batch, self.normalize_advantage_per_mini_batch = (
            self.normalize_advantage_per_mini_batch,
            True,  # so that the library leaves the advantages as they are
        )
        super().compute_returns(obs)
        self.normalize_advantage_per_mini_batch = per_mini_batch
        if not per_mini_batch:
            advantages = self.storage.advantages
            mean, std = pooled_moments(advantages, self.context)
            self.storage.advantages = (advantages - mean) / (std + 1e-8)


class Runner(OnPolicyRunner):
    """rsl_rl's training loop on our process group, logger and checkpoints."""

    alg: DistributedPPO
    env: RslRlVecEnv

    def __init__(
        self, env: VectorEnv, cfg: RslRlCfg, context: DistributedContext, *, grad_sync: str = "ddp"
    ) -> None:
        """Build networks, algorithm and storage.

        Args:
            env: The environment.
            cfg: The agent's configuration.
            context: The process's context.
            grad_sync: ``ddp`` or ``library``.

        Raises:
            ConfigurationError: If rsl_rl or this adapter does not support the configuration.
        """
        self.context = context
        train_cfg = cfg.for_library()
        _check_supported(cfg, env)
        train_cfg["algorithm"] |= {
            "class_name": DistributedPPO,
            "context": context,
            "grad_sync": grad_sync,
        }
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            vec_env = RslRlVecEnv(env, cfg.clip_actions)
            try:
                super().__init__(vec_env, train_cfg, log_dir=None, device=str(context.device))
            except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:
                raise ConfigurationError(
                    f"rsl_rl refuses the agent's configuration ({type(error).__name__}: {error}). "
                    "Correct it by an override agent.<key>=<value>."
                ) from error
        logger.debug("%s", printed.getvalue().strip())

    def _configure_multi_gpu(self) -> None:
        context = self.context
        self.gpu_world_size, self.gpu_global_rank = context.world_size, context.rank
        self.gpu_local_rank, self.is_distributed = context.local_rank, context.is_distributed
        self.cfg["multi_gpu"] = None
        if context.is_distributed:
            self.cfg["multi_gpu"] = {
                "global_rank": context.rank,
                "local_rank": context.local_rank,
                "world_size": context.world_size,
            }

    def learn(self, training: Training, done: int, total: int) -> None:  # type: ignore[override]
        """See :class:`envlab.rl.loop.training.Learner`."""
        self.logger = IterationLog(self, training)  # type: ignore[assignment]
        self.current_learning_iteration = done
        with contextlib.redirect_stdout(io.StringIO()):  # "Synchronizing parameters for rank ..."
            super().learn(total - done)

    def load_models(self, values: Mapping[str, Any]) -> None:
        """See :class:`envlab.rl.loop.training.Learner`."""
        try:
            self.alg.load(values["model"], None, True)
            if self.alg.rnd and "rnd_steps" in values["model"]:
                self.alg.rnd.update_counter = values["model"]["rnd_steps"]
        except (RuntimeError, KeyError, ValueError) as error:
            reason = str(error).splitlines()[-1].strip()
            raise CheckpointError(
                f"The checkpoint does not fit the configured networks ({reason}). Use the run's "
                "own configuration: leave out overrides of agent.actor and agent.critic."
            ) from error

    def model_state(self) -> dict[str, Any]:
        """See :class:`envlab.rl.loop.training.Learner`."""
        rnd = self.alg.rnd
        return self.alg.save() | ({"rnd_steps": rnd.update_counter} if rnd else {})

    def rank_state(self) -> dict[str, Any]:
        """Return the memories of recurrent networks, and the intrinsic returns of environments."""
        average = getattr(getattr(self.alg.rnd, "reward_normalizer", None), "disc_avg", None)
        return {
            "actor": _to_device(self.alg.actor.get_hidden_state(), "cpu"),
            "critic": _to_device(self.alg.critic.get_hidden_state(), "cpu"),
            "intrinsic_returns": _to_device(getattr(average, "avg", None), "cpu"),
        }

    def set_rank_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`rank_state` returned."""
        for model, memory in ((self.alg.actor, state["actor"]), (self.alg.critic, state["critic"])):
            model.reset(hidden_state=_to_device(memory, self.device))
        if state.get("intrinsic_returns") is not None:
            average: Any = self.alg.rnd.reward_normalizer.disc_avg  # type: ignore[union-attr]
            average.avg = state["intrinsic_returns"].to(self.device)

    def noise_keys(self) -> dict[str, Any]:
        """Return nothing: actions are sampled with torch's own generator."""
        return {}


class IterationLog:
    """Stands in for rsl_rl's logger, and hands what it is told to :class:`Training`.

    rsl_rl calls :meth:`log` on every rank, so collectives are safe there.
    """

    writer = None
    """rsl_rl saves and records only where it has a writer of its own; here it has none."""

    def __init__(self, runner: Runner, training: Training) -> None:
        self._runner, self._training = runner, training

    def init_logging_writer(self) -> None:
        """Show the progress line."""
        self._training.start(self._runner.current_learning_iteration)

    def process_env_step(
        self,
        rewards: torch.Tensor,
        dones: torch.Tensor,
        extras: dict[str, Any],
        intrinsic_rewards: torch.Tensor | None,
    ) -> None:
        """Count a step of this rank's environments."""
        self._training.add_step(rewards, dones.bool(), extras["info"])

    def log(
        self,
        it: int,
        collect_time: float,
        learn_time: float,
        loss_dict: dict[str, float],
        learning_rate: float,
        action_std: torch.Tensor,
        **_: Any,
    ) -> None:
        """End an iteration, and write rsl_rl's own tags, over all ranks."""
        iteration = Iteration(
            number=it + 1,
            collect_s=collect_time,
            learn_s=learn_time,
            learning_rate=learning_rate,
            losses=loss_dict,
        )
        record = self._training.finish_iteration(iteration)
        scalars = {f"Loss/{name}": loss for name, loss in record.losses.items()}
        scalars |= {
            "Loss/learning_rate": record.learning_rate,
            "Policy/mean_std": float(action_std.detach().mean()),
            "Perf/total_fps": record.fps,
            "Perf/collection_time": record.collect_s,
            "Perf/learning_time": record.learn_s,
        }
        means = {
            "Train/mean_reward": record.mean_return,
            "Train/mean_episode_length": record.mean_episode_length,
        }
        self._training.write_scalars(record.iteration, scalars | means)


def build(session: Session, env: VectorEnv, context: DistributedContext) -> Runner:
    """Return the runner of a settled session."""
    cfg: RslRlCfg = session.agent_cfg
    runner = Runner(env, cfg, context, grad_sync=session.flags.grad_sync)
    if cfg.init_at_random_ep_len and env.max_episode_length:
        stream = env.random.stream("initial_episode_length")
        env.episode_length_buf = stream.integers(0, env.max_episode_length)
    return runner


def main(arguments: Sequence[str]) -> int:
    """Run ``train.py``: see :func:`envlab.rl.command.launch.run_training`."""
    return run_training(arguments, library=LIBRARY, agent_cfg=RslRlCfg, build=build)


def _check_supported(cfg: RslRlCfg, env: VectorEnv) -> None:
    if cfg.algorithm.class_name != "PPO":
        raise ConfigurationError(
            f"agent.algorithm.class_name is {cfg.algorithm.class_name!r}, but only 'PPO' is "
            "supported."
        )
    if not isinstance(env.single_action_space, spaces.Box):
        raise ConfigurationError(
            f"The task's actions are choices ({env.single_action_space}), but rsl_rl knows real "
            "numbers only. Train it with rl_games or skrl."
        )
    if cfg.actor.distribution_cfg is None:
        raise ConfigurationError(
            "agent.actor.distribution_cfg is null, but the actor needs an action distribution "
            "such as {class_name: GaussianDistribution, init_std: 1.0}."
        )
    for name in ("num_learning_epochs", "num_mini_batches"):
        if getattr(cfg.algorithm, name) <= 0:
            raise ConfigurationError(
                f"agent.algorithm.{name} is {getattr(cfg.algorithm, name)}, but must be greater "
                "than 0."
            )
    batch = cfg.num_steps_per_env * env.num_envs
    if cfg.algorithm.num_mini_batches > batch:
        raise ConfigurationError(
            f"agent.algorithm.num_mini_batches is {cfg.algorithm.num_mini_batches}, but there "
            f"are only {batch} samples per process and iteration. Use fewer, or more environments."
        )
    groups = env.obs_buf.keys()
    for name, wanted in cfg.obs_groups.items():
        missing = [group for group in wanted if group not in groups]
        if missing:
            raise ConfigurationError(
                f"agent.obs_groups.{name} names {missing[0]!r}, but the task observes "
                f"{', '.join(groups)}."
            )
    for name in ("actor", "critic"):
        _check_model(cfg, name, env.obs_buf)


def _check_model(cfg: RslRlCfg, name: str, obs: Mapping[str, torch.Tensor]) -> None:
    """Refuse an image without convolutions, and convolutions without an image."""
    model = getattr(cfg, name)
    groups = cfg.obs_groups.get(name, [])
    images = [group for group in groups if obs[group].dim() == 4]
    if images and model.class_name in ("MLPModel", "RNNModel"):
        shape = list(obs[images[0]].shape[1:])
        raise ConfigurationError(
            f"agent.{name}.class_name is {model.class_name!r}, but {images[0]!r} is an image of "
            f"{shape}. Set agent.{name}.class_name=CNNModel and agent.{name}.cnn_cfg."
        )
    if model.class_name == "CNNModel" and (not images or model.cnn_cfg is None):
        raise ConfigurationError(
            f"agent.{name}.class_name is 'CNNModel', but "
            + (
                f"agent.{name}.cnn_cfg is null. Give it output_channels and kernel_size."
                if images
                else f"{', '.join(groups)} are no images. Set agent.{name}.class_name=MLPModel."
            )
        )


def _to_device(memory: Any, device: str) -> Any:
    """Move what is None, a tensor, or a tuple of them, such as a recurrent memory."""
    if isinstance(memory, tuple):
        return tuple(_to_device(part, device) for part in memory)
    return None if memory is None else memory.to(device)
