"""skrl's PPO whose rollouts are noise, for the tests of its recorded update."""

from __future__ import annotations

import copy
from typing import Any

import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.sim.recordable import RepeatedOperations
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.torch.learner import TorchLearner, make_learner
from tests.small_runs import env_of

CARTPOLE = "Isaac-Cartpole-v0"
ALONE = DistributedContext.single("cpu")
NUM_ENVS, NUM_STEPS = 8, 6
WHEN = {"timestep": 0, "timesteps": 10}
SCALER = "RunningStandardScaler"
SMALL: dict[str, Any] = {
    "rollouts": NUM_STEPS,
    "learning_epochs": 3,
    "mini_batches": 8,
    "observation_preprocessor": SCALER,
    "value_preprocessor": SCALER,
    "learning_rate_scheduler": "KLAdaptiveLR",
    "entropy_loss_scale": 0.01,
    "value_clip": 0.2,
    "grad_norm_clip": 1.0,
}


def learner_of(
    context: DistributedContext = ALONE,
    *,
    algorithm: str = "ppo",
    grad_sync: str = "library",
    cfg: dict[str, Any] | None = None,
    **agent: Any,
) -> TorchLearner:
    """Return a learner with some of the agent's settings, and others of its configuration."""
    given = {"class": algorithm, **(SMALL if algorithm == "ppo" else {}), **agent}
    settled = merge(SkrlCfg().with_task_values({"agent": given}), cfg or {}, "agent").resolved()
    env = env_of(CARTPOLE, NUM_ENVS, context)
    torch.manual_seed(0)
    learner = make_learner(env, settled, context, grad_sync=grad_sync)
    learner.start(10)
    return learner


def in_double(learner: TorchLearner) -> TorchLearner:
    """Have a learner compute in double precision."""
    agent = learner.agent
    for network in (agent.policy, agent.value):
        network.double()
    memory = agent.memory
    for name, values in memory.tensors.items():
        if values.is_floating_point():
            memory.tensors[name] = values.double()
            memory.tensors_view[name] = memory.tensors[name].flatten(0, 1)
    return learner


def recorded(learner: TorchLearner, context: DistributedContext = ALONE) -> TorchLearner:
    """Have a learner's updates recorded, as on a GPU."""
    learner.record(context, lambda: RepeatedOperations, is_required=True)
    return learner


def unrecorded(learner: TorchLearner, context: DistributedContext = ALONE) -> TorchLearner:
    """Have a learner make the same updates without graphs."""
    for recording in recorded(learner, context).recorded.recordings.values():
        recording.give_up()
    return learner


def collect(learner: TorchLearner, seed: int) -> None:
    """Fill the memory with a rollout of noise, by the library's own methods."""
    agent, draws = learner.agent, torch.Generator().manual_seed(seed)
    dtype = next(agent.policy.parameters()).dtype

    def draw(size: int) -> torch.Tensor:
        drawn = torch.randn(NUM_ENVS, size, generator=draws, dtype=dtype)
        return drawn.to(agent.device)

    torch.manual_seed(seed)
    for _ in range(NUM_STEPS):
        observations = draw(4)
        states, next_states = (None if agent.state_space is None else draw(4) for _ in range(2))
        with torch.no_grad():
            actions, _ = agent.act(observations, states, **WHEN)
            agent.record_transition(
                observations=observations,
                states=states,
                actions=actions,
                rewards=draw(1),
                next_observations=draw(4),
                next_states=next_states,
                terminated=draw(1) > 1.5,
                truncated=draw(1) > 1.5,
                infos={},
                **WHEN,
            )


def update(learner: TorchLearner, seed: int) -> dict[str, list[float]]:
    """Make an update; return what skrl would write of it.

    In double precision, the optimizer counts its steps as precisely as the library's Python does.
    """
    before = torch.get_default_dtype()
    torch.manual_seed(seed)
    torch.set_default_dtype(next(learner.agent.policy.parameters()).dtype)
    learner.agent.update(**WHEN)
    torch.set_default_dtype(before)
    found = copy.deepcopy(dict(learner.agent.tracking_data))
    learner.agent.tracking_data.clear()
    return found


def tensors_of(learner: TorchLearner) -> dict[str, torch.Tensor]:
    """Return copies of parameters and normalisers by name."""
    modules = learner.model_state()["modules"]["agent"]
    return {
        f"{role}.{name}": values.clone()
        for role, state in modules.items()
        if role != "optimizer"
        for name, values in state.items()
    }
