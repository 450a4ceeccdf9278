"""Every library accepts unusual numbers; ``mistakes/ranges.yaml`` has those that it refuses."""

from __future__ import annotations

import pytest

from envlab.libraries import libraries
from envlab.registry import list_tasks
from tests.trained import TASK, session_of

CONFIG = "agent.params.config"
UNUSUAL = {
    "rsl_rl": [
        # An episode of one step, no discount, Monte-Carlo returns.
        *("env.decimation=1", "env.episode_length_s=${env.sim.dt}"),
        *("agent.algorithm.gamma=0", "agent.algorithm.lam=1"),
        "agent.actor.hidden_dims=[-1,32]",  # -1: as wide as the input
        *("agent.keep_checkpoints=0", "agent.save_interval_minutes=0"),
        *("agent.algorithm.max_grad_norm=inf", "agent.clip_actions=null"),
    ],
    "rl_games": [
        *("agent.params.env.clip_actions=inf", f"{CONFIG}.score_to_win=-100"),
        *(f"{CONFIG}.truncate_grads=false", f"{CONFIG}.grad_norm=0"),
        *(f"{CONFIG}.critic_grad_clip=0", f"{CONFIG}.entropy_coef=0"),
    ],
    "skrl": [
        # It turns these off by 0 or less.
        *("agent.agent.value_clip=-1", "agent.agent.grad_norm_clip=0"),
        *("agent.agent.kl_threshold=0", "agent.agent.entropy_loss_scale=0"),
        *("agent.max_iterations=null", "agent.agent.experiment.write_interval=auto"),
    ],
}


def test_unusual_values_with_a_meaning_are_accepted():
    for library, arguments in UNUSUAL.items():
        session_of(library, [TASK, *arguments])


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.long)])
def test_every_shipped_configuration_is_within_all_ranges(step: int):
    """Daytime runs check those of each twelfth task."""
    names = sorted(libraries(), key=len, reverse=True)
    for name in names:
        session_of(name, ["--task=gym:Pendulum-v1"])  # the library's own defaults
    for task in list_tasks()[::step]:
        for key in task.libraries:
            name = next(name for name in names if key.startswith(name))
            session_of(name, [f"--task={task.id}", f"--agent={key}_cfg_entry_point"])
