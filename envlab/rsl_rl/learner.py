"""An iteration of rsl_rl: a rollout by its algorithm's public methods, and an update."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from envlab.errors import CheckpointError, ConfigurationError
from envlab.learner import Curve, Iteration, IterationRecord, Learner, OnStep
from envlab.registry import SCRIPTED, scripted_policy
from envlab.rsl_rl.algorithms import make_algorithm
from envlab.rsl_rl.cfg import DistillationCfg, RslRlCfg, RunnerCfg
from envlab.rsl_rl.checks import check_supported
from envlab.rsl_rl.collection import Ahead, RecordedRollout, collect
from envlab.rsl_rl.distillation import (
    TEACHER,
    DistributedDistillation,
    ScriptedTeacher,
    check_teachers,
    open_teacher,
)
from envlab.rsl_rl.ppo import DistributedPPO
from envlab.state import State
from envlab.training.plan import RunPlan


class RslRlLearner(Learner):
    """rsl_rl's PPO or distillation on this rank's environments.

    Attributes:
        alg: The algorithm, with networks, optimizer and storage.
        env: The environments as rsl_rl sees them.
    """

    STATE = State(
        per_env=("alg.rnd.reward_normalizer.disc_avg.avg",),
        per_env_dim_1=("memories",),
        parts=("ahead.overlap",),
    )

    def __init__(
        self,
        env: BatchedEnv,
        cfg: RunnerCfg,
        context: DistributedContext,
        *,
        grad_sync: str = "ddp",
    ) -> None:
        """Build the algorithm.

        Args:
            env: The environments.
            cfg: The agent's configuration.
            context: The process's context.
            grad_sync: ``ddp`` or ``library``.

        Raises:
            ConfigurationError: If rsl_rl or this adapter does not support the configuration.
        """
        self.env = RslRlVecEnvWrapper(env, cfg.clip_actions)
        check_supported(cfg, env)
        self._cfg, self._context = cfg, context
        self.alg = make_algorithm(self.env, cfg, context, grad_sync=grad_sync)
        self.recorded_rollout: RecordedRollout | None = None
        """Fills the storage instead of :func:`collect`, if the updates are recorded too."""
        if isinstance(cfg, RslRlCfg) and self.alg.recorded is not None:
            self.recorded_rollout = RecordedRollout(self.alg, is_required=cfg.graph == "on")
            self.alg.recorded.readings = self.readings
        self.ahead: Ahead | None = None
        if cfg.overlap:
            assert isinstance(self.alg, DistributedPPO)
            assert isinstance(cfg, RslRlCfg)  # a distillation's has no overlap
            self.ahead = Ahead(self.env, self.alg, cfg, context)

    def start(self, total: int) -> None:
        self.alg.train_mode()
        if self._context.is_distributed:
            self.alg.broadcast_parameters()

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        self.alg.begin(number)
        start = time.perf_counter()
        with self.rollout(on_step):
            collected = time.perf_counter()
            losses = self.alg.update()
            learn_s = time.perf_counter() - collected
        return Iteration(
            frames=self._cfg.num_steps_per_env * self.env.num_envs,
            collect_s=time.perf_counter() - start - learn_s,
            learn_s=learn_s,
            learning_rate=self.alg.learning_rate,
            losses=losses,
        )

    @contextlib.contextmanager
    def rollout(self, on_step: OnStep) -> Iterator[None]:
        """Provide a rollout in the storage for learning: a new one, or one collected ahead."""
        if self.ahead is None:
            with torch.inference_mode():
                if self.recorded_rollout is None:
                    collect(self.env, self.alg, self._cfg, on_step)
                else:
                    self.recorded_rollout(self.env, on_step)
            yield
            return
        assert isinstance(self.alg, DistributedPPO)
        with self.ahead.overlap.rollout() as rollout:
            rollout.log.tell(on_step)
            self.alg.storage = rollout.storage
            self.alg.normalise_advantages()
            yield

    def curves(self, record: IterationRecord) -> list[Curve]:
        """Return the curves of rsl_rl's own logger, under its tags, over iterations."""
        scalars = {f"Loss/{name}": loss for name, loss in record.losses.items()}
        policy = self.alg.get_policy()
        if policy.distribution is not None:
            scalars["Policy/mean_std"] = self._mean_std()
        scalars |= {
            "Loss/learning_rate": record.learning_rate,
            "Perf/total_fps": record.fps,
            "Perf/collection_time": record.collect_s,
            "Perf/learning_time": record.learn_s,
        }
        means = {
            "Train/mean_reward": record.mean_return,
            "Train/mean_episode_length": record.mean_episode_length,
        }
        return [Curve(record.iteration, scalars | means)]

    def model_state(self) -> dict[str, Any]:
        rnd = self._rnd
        return self.alg.save() | ({"rnd_steps": rnd.update_counter} if rnd else {})

    def all_optimizers(self) -> list[torch.optim.Optimizer]:
        rnd = [self.alg.rnd.optimizer] if self._rnd else []
        return [self.alg.optimizer, *rnd]

    def follow_rates(self) -> None:
        self.alg.learning_rate = self.alg.optimizer.param_groups[0]["lr"]

    def load_models(self, values: Mapping[str, Any]) -> None:
        try:
            self.alg.load(values["model"], None, True)
            if self._rnd and "rnd_steps" in values["model"]:
                self._rnd.update_counter = values["model"]["rnd_steps"]
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            names = self._cfg.NETWORKS
            reason = str(error).splitlines()[-1].strip()
            raise CheckpointError(
                f"The checkpoint does not fit the configured networks ({reason}). Use the run's "
                f"own configuration: leave out overrides of agent.{' and agent.'.join(names)}."
            ) from error

    @property
    def memories(self) -> dict[str, Any]:
        """Memories of recurrent networks by name, ``(layers, num_envs, size)``, or None."""
        return self._acting.memories()

    @memories.setter
    def memories(self, memories: Mapping[str, Any]) -> None:
        self._acting.set_memories(memories)

    def _mean_std(self) -> float:
        """Return the mean deviation of actions, which a recorded update has read already."""
        recorded = getattr(self.alg, "recorded", None)
        if recorded is not None and recorded.mean_std is not None:
            return float(recorded.mean_std)
        return float(self.alg.get_policy().output_std.detach().mean())

    @property
    def _acting(self) -> Any:
        """The algorithm that acts: a copy, if it does so while the other learns."""
        return self.alg if self.ahead is None else self.ahead.acting

    @property
    def _rnd(self) -> Any:
        """Random network distillation, which only PPO has."""
        return getattr(self.alg, "rnd", None)


def build(plan: RunPlan, env: BatchedEnv, context: DistributedContext) -> RslRlLearner:
    """Return the learner of a settled plan."""
    cfg: RunnerCfg = plan.agent_cfg
    given = plan.start.policy
    if isinstance(cfg, DistillationCfg) and given is None and plan.start.saved is None:
        raise ConfigurationError(
            "There is no teacher to distil. Give --checkpoint=<its run's folder, or a file of it>, "
            "or continue a distillation by --resume."
        )
    if isinstance(cfg, DistillationCfg) and cfg.teachers:
        check_teachers(cfg.teachers, env)
    learning = plan.learning_context(context)
    learner = RslRlLearner(env, cfg, learning, grad_sync=plan.flags.grad_sync)
    if plan.start.saved is not None:
        given = plan.start.saved["model"].get(TEACHER)
    if given is not None and given["library"] == SCRIPTED:
        assert isinstance(learner.alg, DistributedDistillation)
        learner.alg.imitate(ScriptedTeacher(given, scripted_policy(plan.task)(env)))
    elif given is not None and given["library"] != plan.library.name:
        assert isinstance(learner.alg, DistributedDistillation)  # PPO never gets one
        groups = cfg.obs_groups["teacher"]
        obs, num_actions = learner.env.get_observations(), learner.env.num_actions
        trust = plan.flags.trust
        learner.alg.imitate(open_teacher(given, obs, num_actions, groups, context, trust))
    elif given is not None:
        learner.alg.begin_with(given, given["path"])
    if cfg.init_at_random_ep_len and env.max_episode_length:
        stream = env.random.stream("initial_episode_length")
        env.episode_length_buf = stream.integers(0, env.max_episode_length)
    return learner
