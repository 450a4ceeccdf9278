"""rl_games' PPO whose rollouts are noise, for the tests of its recorded update."""

from __future__ import annotations

from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.learner import Iteration
from envlab.rl_games.cfg import RlGamesCfg
from envlab.rl_games.learner import RlGamesLearner
from envlab.sim.recordable import RepeatedOperations
from tests.small_runs import CARTPOLE, env_of

ALONE = DistributedContext.single("cpu")
NUM_ENVS, NUM_STEPS, NUM_BATCHES = 8, 6, 4
SMALL: dict[str, Any] = {
    "horizon_length": NUM_STEPS,
    "minibatch_size": NUM_ENVS * NUM_STEPS // NUM_BATCHES,
    "seq_length": 1,
    "mini_epochs": 3,
    "learning_rate": 2.0**-11,  # the same in 32 bits, which a fused Adam reads
    "normalize_input": True,
    "normalize_value": True,
    "entropy_coef": 0.01,
    "bounds_loss_coef": 0.1,
    "clip_actions": False,
}


def learner_of(
    context: DistributedContext = ALONE,
    *,
    grad_sync: str = "library",
    params: dict[str, Any] | None = None,
    graph: str = "auto",
    **config: Any,
) -> RlGamesLearner:
    """Return a learner with some settings of its algorithm, and others of its parameters."""
    values = {"params": {**(params or {}), "config": {**SMALL, **config}}, "graph": graph}
    cfg = RlGamesCfg().with_task_values(values)
    env = env_of(CARTPOLE, NUM_ENVS, context)
    torch.manual_seed(0)
    learner = RlGamesLearner(env, cfg, context, grad_sync=grad_sync)
    learner.start(10)
    return learner


def recorded(learner: RlGamesLearner) -> RlGamesLearner:
    """Have a learner's updates recorded, as on a GPU."""
    learner.record(lambda: RepeatedOperations, is_required=True)
    return learner


def unrecorded(learner: RlGamesLearner) -> RlGamesLearner:
    """Have a learner make the same updates without graphs."""
    recorded(learner).agent.recorded.recording.give_up()
    return learner


def update(learner: RlGamesLearner, seed: int) -> Iteration:
    """Make an iteration with a rollout of noise."""
    agent, draws = learner.agent, torch.Generator().manual_seed(seed)
    parameter = next(agent.model.parameters())
    count = NUM_ENVS * NUM_STEPS

    def draw(*size: int) -> torch.Tensor:
        return torch.randn(count, *size, generator=draws, dtype=parameter.dtype).to(agent.device)

    def play_steps() -> dict[str, Any]:
        obs, noise = draw(4), draw(1)
        agent.model.eval()
        acted = agent.model({"is_train": False, "obs": obs})
        mean, deviation = acted["mus"], acted["sigmas"]
        actions = mean + deviation * noise
        density = agent.model.neglogp(actions, mean, deviation, deviation.log())
        return {
            "obses": obs,
            "returns": draw(1),
            "dones": draw() > 1.5,
            "values": acted["values"],
            "actions": actions,
            "neglogpacs": density,
            "mus": mean.clone(),
            "sigmas": deviation.clone(),
            "played_frames": count,
            "step_time": 0.0,
        }

    agent.play_steps = play_steps
    torch.manual_seed(seed)
    return learner.iterate(seed, lambda *_: None)


def tensors_of(learner: RlGamesLearner) -> dict[str, torch.Tensor]:
    """Return copies of parameters and normalisers by name."""
    networks = learner.model_state()["networks"]
    return {name: values.clone() for name, values in networks.items()}
