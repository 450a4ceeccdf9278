"""rsl_rl 5.5.1 on envlab: what the library lacks across ranks is added here, by subclassing only.

Gaps of rsl_rl 5.5.1 that this file closes:

- Its runner hard-codes NCCL and requires ``cuda:LOCAL_RANK``: :class:`Runner` uses our context.
- It averages gradients by hand; the policy is wrapped in ``DistributedDataParallel`` instead
  (``--grad_sync library`` keeps its own way, with the same result).
- It normalises advantages with each rank's own mean and deviation: :class:`DistributedPPO` pools
  them.
- It bootstraps time limits from the state before the last step: here from the final observation.
- Its logger sees rank 0's environments only: :class:`IterationLog` sums up all ranks.
- It resumes at the iteration it had finished, with counters and generators lost, saves in place and
  loads with pickle: checkpoints are ours.
- It never leaves the process group: the context does.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.utils import reduce_gradients_in_buckets
from tensordict import TensorDict

from envlab.config import merge
from envlab.distributed.audit import audit
from envlab.distributed.checkpoint import load_checkpoint, save_checkpoint
from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import wrap_actor_critic
from envlab.distributed.interrupt import InterruptFlag
from envlab.distributed.seeding import generator_state, seed_everything, set_generator_state
from envlab.distributed.statistics import pooled_moments
from envlab.envs import VectorEnv
from envlab.errors import CheckpointError, ConfigurationError
from envlab.rl.launch import run_training
from envlab.rl.metrics import (
    EpisodeTracker,
    Progress,
    RunMetrics,
    check_event_writer,
    make_event_writer,
)
from envlab.rl.rsl_rl_cfg import RslRlCfg
from envlab.rl.run import Run
from envlab.rl.session import (
    Session,
    agree_on_seed,
    check_origin,
    choose_num_envs,
    locate_checkpoint,
)
from envlab.rl.video import VideoRecorder, check_recording, render_mode, start_recording

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
        self.recorder: VideoRecorder | None = None
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
        if self.recorder is not None:
            self.recorder.after_step()
        extras: dict[str, Any] = {"time_outs": truncated.float(), "info": info}
        if "final_obs" in info:
            extras["final_obs"] = self._pack(info["final_obs"])
        return self._pack(obs), reward, terminated | truncated, extras

    def _pack(self, obs: dict[str, torch.Tensor]) -> TensorDict:
        return TensorDict(dict(obs), batch_size=[self.num_envs], device=self.device)


class DistributedPPO(PPO):
    """PPO whose statistics and gradients are those of all ranks."""

    actor: Any
    critic: Any
    normalize_advantage_per_mini_batch: bool

    def __init__(
        self, *args: Any, context: DistributedContext, grad_sync: str, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
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
            except (TypeError, ValueError, KeyError, AttributeError) as error:
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

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # "Synchronizing parameters for rank ..."
            super().learn(num_learning_iterations, init_at_random_ep_len)

    def load_models(self, values: dict[str, Any]) -> None:
        """Load networks, optimizer and learning rate from a checkpoint's ``model``.

        Raises:
            CheckpointError: If the networks have other shapes than the configuration's.
        """
        try:
            self.alg.load(values["model"], None, True)
        except (RuntimeError, KeyError, ValueError) as error:
            reason = str(error).splitlines()[-1].strip()
            raise CheckpointError(
                f"The checkpoint does not fit the configured networks ({reason}). Use the run's "
                "own configuration: --config RUN."
            ) from error


class IterationLog:
    """What happens after each iteration, in place of rsl_rl's logger: metrics, audit, checkpoint.

    rsl_rl calls :meth:`log` on every rank, so collectives are safe here.
    """

    writer = None
    """rsl_rl saves and records only where it has a writer of its own; here it has none."""

    def __init__(
        self, runner: Runner, session: Session, run: Run, *, seed: int, total_iterations: int
    ) -> None:
        cfg = session.agent_cfg
        self._runner, self._session, self._run, self._cfg = runner, session, run, cfg
        self._context, self._env = runner.context, runner.env.env
        self._seed, self._total = seed, total_iterations
        self.tracker = EpisodeTracker(self._env.num_envs, self._context.device)
        frames = cfg.num_steps_per_env * self._env.num_envs * self._context.world_size
        self.metrics = RunMetrics(run, self._context, self.tracker, frames_per_iteration=frames)
        self._events = make_event_writer(cfg.logger, run) if self._context.is_main else None
        self._progress: Progress | None = None
        self.last_checkpoint: Path | None = None
        self._first_done = False

    def init_logging_writer(self) -> None:
        """Show the progress line."""
        done = self._runner.current_learning_iteration
        self._progress = Progress(self._context, done=done, total=self._total)

    def process_env_step(
        self,
        rewards: torch.Tensor,
        dones: torch.Tensor,
        extras: dict[str, Any],
        intrinsic_rewards: torch.Tensor | None,
    ) -> None:
        """Count a step of this rank's environments."""
        self.tracker.add_step(rewards, dones.bool(), extras["info"])

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
        """Reduce and write metrics; audit and save where they are due. Called by every rank."""
        done = it + 1
        self._env.check_health()
        record = self.metrics.reduce(
            done,
            collect_s=collect_time,
            learn_s=learn_time,
            learning_rate=learning_rate,
            losses=loss_dict,
        )
        save_due = done % self._cfg.save_interval == 0 or done == self._total
        if save_due or not self._first_done or done % self._cfg.audit_interval == 0:
            self._first_done = True
            self.audit(done)
        self._run.append_metrics(asdict(record))
        if save_due:
            self.save(done, record.frames, record.mean_return)
        if self._events is not None:
            self._write_events(asdict(record), float(action_std.detach().mean()))
        if self._progress is not None:
            self._progress.show(record)

    def audit(self, iteration: int) -> None:
        """Compare what must be equal on all ranks, and what must differ."""
        equal = {**self._runner.alg.save(), "learning_rate": self._runner.alg.learning_rate}
        different = {
            "environment indices": self._env.env_ids,
            "observations": self._env.obs_buf["policy"],
        }
        audit(self._context, equal, different, iteration=iteration)

    def save(self, iteration: int, frames: int, mean_return: float | None) -> None:
        """Write a checkpoint on rank 0, with every rank's part. Called by every rank."""
        ranks = self._context.gather_to_main(self._rank_state())
        best = mean_return is not None and (
            self.metrics.best_return is None or mean_return >= self.metrics.best_return
        )
        if best:
            self.metrics.best_return = mean_return
        if ranks is None:
            return
        path = self._run.checkpoints / f"model_{iteration}.pt"
        values = {
            "library": LIBRARY,
            "task": self._session.task.id,
            "iteration": iteration,
            "frames": frames,
            "seed": self._seed,
            "world_size": self._context.world_size,
            "num_envs": self._env.num_envs,
            "model": self._runner.alg.save(),
            "metrics": self.metrics.state(),
            "ranks": ranks,
        }
        save_checkpoint(path, values)
        if best:
            _link(path, self._run.checkpoints / "best.pt")
        self.last_checkpoint = path
        self._run.update(iteration=iteration, frames=frames, mean_return=mean_return)

    def restore(self, values: dict[str, Any], path: Path) -> None:
        """Continue where a checkpoint stopped: exactly, with as many ranks and environments."""
        runner = self._runner
        runner.current_learning_iteration = int(values["iteration"])
        self.metrics.set_state(values["metrics"])
        same = values["world_size"] == self._context.world_size
        if same and values["num_envs"] == self._env.num_envs and values["seed"] == self._seed:
            mine = values["ranks"][self._context.rank]
            self._env.set_state(mine["env"])
            self.tracker.set_state(mine["episodes"])
            set_generator_state(mine["generators"])
            logger.info("Resuming exactly from %s (iteration %d).", path, values["iteration"])
        else:
            logger.info(
                "Resuming from %s (iteration %d): networks, optimizer, learning rate and "
                "counters go on; environments and generators start fresh, because it was saved "
                "with %d processes of %d environments and seed %d, not %d of %d and %d.",
                path,
                values["iteration"],
                values["world_size"],
                values["num_envs"],
                values["seed"],
                self._context.world_size,
                self._env.num_envs,
                self._seed,
            )

    def close(self) -> None:
        """Close the progress line and the event files."""
        if self._progress is not None:
            self._progress.close()
        if self._events is not None:
            getattr(self._events, "close", getattr(self._events, "stop", lambda: None))()

    def _rank_state(self) -> dict[str, Any]:
        return {
            "env": self._env.state(),
            "episodes": self.tracker.state(),
            "generators": generator_state(),
        }

    def _write_events(self, record: dict[str, Any], action_std: float) -> None:
        """Write rsl_rl's own tags, over all ranks."""
        scalars = {f"Loss/{name}": loss for name, loss in record["losses"].items()}
        scalars |= record["episode"]
        scalars |= {
            "Loss/learning_rate": record["learning_rate"],
            "Policy/mean_std": action_std,
            "Perf/total_fps": record["fps"],
            "Perf/collection_time": record["collect_s"],
            "Perf/learning_time": record["learn_s"],
            "Train/mean_reward": record["mean_return"],
            "Train/mean_episode_length": record["mean_episode_length"],
        }
        assert self._events is not None
        for tag, value in scalars.items():
            if value is not None:
                self._events.add_scalar(tag, value, record["iteration"])


def train(session: Session, context: DistributedContext, flag: InterruptFlag) -> None:
    """Train one session to the end of its budget.

    Args:
        session: What to train.
        context: The process's context.
        flag: Tells whether a signal ended the run.

    Raises:
        EnvlabError: For bad input, before a run directory is made.
    """
    cfg: RslRlCfg = session.agent_cfg
    flags = session.flags
    checkpoint = _find_resume(session)
    seed = agree_on_seed(cfg.seed, context)
    num_envs = choose_num_envs(session, context)
    env_seed = seed if session.env_cfg.seed is None else session.env_cfg.seed
    env_cfg = merge(session.env_cfg, {"scene": {"num_envs": num_envs}, "seed": env_seed}, "env")
    agent_cfg = merge(cfg, {"seed": seed}, "agent")

    seed_everything(seed)
    env = session.task.make(env_cfg, context=context, render_mode=render_mode(flags))
    check_recording(flags, env)
    runner = Runner(env, agent_cfg, context, grad_sync=flags.grad_sync)
    seed_everything(seed + context.rank)
    if agent_cfg.init_at_random_ep_len:
        stream = env.random.stream("initial_episode_length")
        env.episode_length_buf = stream.integers(0, env.max_episode_length)
    values = None
    if checkpoint is not None:
        values = load_checkpoint(checkpoint)
        check_origin(values, checkpoint, task=session.task, library=LIBRARY)
        runner.load_models(values)
    frames_per_iteration = agent_cfg.num_steps_per_env * num_envs * context.world_size
    total = _total_iterations(agent_cfg, flags.max_frames, frames_per_iteration, values)

    run = Run.create(
        context,
        library=LIBRARY,
        experiment=agent_cfg.experiment_name,
        run_name=agent_cfg.run_name,
        facts={
            "task": session.task.id,
            "seed": seed,
            "num_envs": num_envs,
            "global_num_envs": num_envs * context.world_size,
            "grad_sync": flags.grad_sync if context.is_distributed else None,
            "overrides": session.overrides,
            "flags": {
                key: value for key, value in vars(flags).items() if value not in (None, False)
            },
            "resumed_from": None if checkpoint is None else str(checkpoint),
        },
        configs={"env": env_cfg, "agent": agent_cfg},
    )
    run.interrupt_signal = lambda: flag.signal_number
    env.log_dir = run.directory
    with run:
        log = IterationLog(runner, session, run, seed=seed, total_iterations=total)
        runner.logger = log  # type: ignore[assignment]
        if values is not None and checkpoint is not None:
            log.restore(values, checkpoint)
        logger.info("Writing to %s", run.directory)
        recorder = start_recording(flags, env, run.directory / "videos" / "train")
        runner.env.recorder = recorder
        try:
            runner.learn(total - runner.current_learning_iteration)
        finally:
            log.close()
            if recorder is not None:
                recorder.close()
            env.close()
    if context.is_main:
        _print_summary(session, run, log)


def main(arguments: Sequence[str]) -> int:
    """Run ``train.py``: see :func:`envlab.rl.launch.run_training`."""
    return run_training(arguments, library=LIBRARY, agent_cfg=RslRlCfg, train=train)


def _check_supported(cfg: RslRlCfg, env: VectorEnv) -> None:
    if cfg.algorithm.class_name != "PPO":
        raise ConfigurationError(
            f"agent.algorithm.class_name is {cfg.algorithm.class_name!r}, but only 'PPO' is "
            "supported."
        )
    if cfg.actor.distribution_cfg is None:
        raise ConfigurationError(
            "agent.actor.distribution_cfg is null, but the actor needs an action distribution "
            "such as {class_name: GaussianDistribution, init_std: 1.0}."
        )
    for name in ("num_steps_per_env", "save_interval", "audit_interval", "max_iterations"):
        if getattr(cfg, name) <= 0:
            raise ConfigurationError(
                f"agent.{name} is {getattr(cfg, name)}, but must be greater than 0."
            )
    check_event_writer(cfg.logger)
    groups = env.obs_buf.keys()
    for name, wanted in cfg.obs_groups.items():
        missing = [group for group in wanted if group not in groups]
        if missing:
            raise ConfigurationError(
                f"agent.obs_groups.{name} names {missing[0]!r}, but the task observes "
                f"{', '.join(groups)}."
            )


def _find_resume(session: Session) -> Path | None:
    flags = session.flags
    if not flags.resume:
        if flags.checkpoint or flags.load_run:
            name = "--checkpoint" if flags.checkpoint else "--load_run"
            raise ConfigurationError(
                f"{name} has no effect on a new run. Add --resume to continue one."
            )
        return None
    experiment = session.agent_cfg.experiment_name
    return locate_checkpoint(LIBRARY, experiment, flags.load_run, flags.checkpoint)[0]


def _total_iterations(
    cfg: RslRlCfg, max_frames: int | None, frames_per_iteration: int, resumed: dict[str, Any] | None
) -> int:
    done, frames = 0, 0
    if resumed is not None:
        # Frames are counted, not derived: another world size has other frames per iteration.
        done, frames = int(resumed["iteration"]), int(resumed["frames"])
    total = cfg.max_iterations
    if max_frames is not None:
        total = done + math.ceil((max_frames - frames) / frames_per_iteration)
    if total <= done or total < 1:
        raise ConfigurationError(
            f"The run is to end at iteration {total}, but {done} are done already. Iterations "
            f"count from the first run on: give --max_iterations more than {done}."
        )
    return total


def _link(path: Path, name: Path) -> None:
    """Give a file a second name, replacing what bore it."""
    temporary = name.with_name(f".{name.name}.{os.getpid()}.tmp")
    os.link(path, temporary)
    temporary.replace(name)


def _print_summary(session: Session, run: Run, log: IterationLog) -> None:
    script = "scripts/reinforcement_learning/rsl_rl/play.py"
    directory = os.path.relpath(run.directory)
    print(f"Run directory: {directory}")
    if log.last_checkpoint is not None:
        checkpoint = os.path.relpath(log.last_checkpoint)
        print(f"Last checkpoint: {checkpoint}")
        print(f"Play it: python {script} --task={session.task.id} --checkpoint={checkpoint}")
