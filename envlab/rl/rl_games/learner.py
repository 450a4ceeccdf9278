"""rl_games 1.6.5 on envlab: its PPO agents on our process group, loop, metrics and checkpoints.

Gaps of rl_games 1.6.5 that this file and those beside it close:

- It hard-codes NCCL, ``cuda:LOCAL_RANK`` and the launcher's variables: the agents are built as on
  one process and told about the others afterwards, from our context.
- It averages gradients by hand, after a backward pass: the networks are wrapped in
  ``DistributedDataParallel`` instead (``--grad_sync library`` keeps its way, with the same result).
- Its normalisers see one rank's data each (:mod:`envlab.rl.rl_games.normalisers`), and advantages
  are normalised by each rank's own moments: both are pooled.
- Ranks other than 0 have no learning rate schedule and get rank 0's value in float32, and with
  ``schedule_type: standard`` they put an old one back after each minibatch, so that ranks diverge:
  every rank keeps the schedule, and computes the same rate from the same averaged KL.
- A linear schedule over frames never moves, because it is told 0, and frames are counted on rank 0
  only: schedules go over the run's iterations, and frames are counted on every rank.
- It bootstraps time limits from the state before the last step: here from the final observation.
- A resume begins with the configured learning rate, and forgets the state of the central value
  network's schedule: checkpoints are ours and hold both.
- Every rank makes directories, observers gather infos on ranks that never write them, rank 0 sees
  its own episodes only, and leaving is up to rank 0: the loop here does without all of them.
- Its Runner sets threads, TF32 and seeds, with offsets of its own: it is not used.
"""

from __future__ import annotations

from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.rl.command.session import Session
from envlab.rl.loop.training import Learner
from envlab.rl.rl_games.cfg import RlGamesCfg
from envlab.rl.rl_games.checks import check_supported
from envlab.rl.rl_games.ppo import ContinuousAgent, DiscreteAgent
from envlab.rl.rl_games.sac import SacAgent

LIBRARY = "rl_games"


def build(session: Session, env: VectorEnv, context: DistributedContext) -> Learner:
    """Return the agent of a settled session."""
    cfg: RlGamesCfg = session.agent_cfg
    check_supported(cfg, env, context)
    if cfg.is_sac:
        return SacAgent(env, cfg, context)
    kind = DiscreteAgent if cfg.params.algo.name == "a2c_discrete" else ContinuousAgent
    return kind(env, cfg, context, grad_sync=session.flags.grad_sync)
