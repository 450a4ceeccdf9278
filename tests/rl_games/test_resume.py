"""rl_games on one process: a resumed run is the unbroken one, bit for bit."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.cli import play
from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.rl_games.cfg import MLP, RlGamesCfg
from envlab.rl_games.learner import RlGamesLearner
from envlab.rl_games.sac import SacLearner
from tests.rl_games.first_update import TASK, agent_cfg
from tests.rl_games.worker import CARTPOLE, CENTRAL, CONFIG, LSTM
from tests.small_runs import check_same_end, env_of, train_in
from tests.trained import checkpoint_of, metrics_of, only_run

SAC = [
    *("agent.params.algo.name=sac", "agent.params.model.name=soft_actor_critic"),
    *("agent.params.network.name=soft_actor_critic", "agent.params.network.separate=true"),
    *("+agent.params.network.log_std_bounds=[-5.0, 2.0]", f"{CONFIG}.num_steps_per_episode=16"),
    *(f"{CONFIG}.num_warmup_steps=2", f"{CONFIG}.batch_size=64"),
    f"{CONFIG}.replay_buffer_size=1000",
]
CENTRAL_LSTM = (
    f"+{CONFIG}.central_value_config={{minibatch_size: 256, network: {{name: actor_critic, "
    "central_value: true, mlp: {units: [16], activation: elu, initializer: {name: default}}, "
    "rnn: {name: gru, units: 8, layers: 1}}}"
)
KINDS = {
    "linear": [*CARTPOLE, f"{CONFIG}.lr_schedule=linear", f"{CONFIG}.schedule_entropy=true"],
    "recurrent": [*CARTPOLE, LSTM, CENTRAL[0], CENTRAL_LSTM],
    "sac": [*CARTPOLE, *SAC],
}
"""Those of one process; an adaptive rate on two ranks is in ``tests/golden/test_old_runs.py``."""


@pytest.mark.parametrize(
    "kind", ["linear", "recurrent", pytest.param("sac", marks=pytest.mark.long)]
)
def test_a_resumed_run_ends_bit_identical(kind: str, tmp_path: Path):
    assert train_in("rl_games", tmp_path / "whole", *KINDS[kind], "--max_iterations=4") == 0
    whole = only_run(tmp_path / "whole")
    task, path = KINDS[kind][0], f"--checkpoint={whole}/checkpoints/model_2.pt"
    # The run's own configuration names its algorithm, its networks and its end.
    assert train_in("rl_games", tmp_path / "resumed", task, "--device=cpu", "--resume", path) == 0
    resumed = only_run(tmp_path / "resumed")
    check_same_end(resumed, whole, resumed_at=2, iteration=4)
    if kind == "linear":
        return  # it plays like any other
    with contextlib.chdir(tmp_path / "resumed"):
        flags = ["--device=cpu", "--num_envs=2", f"--checkpoint={resumed}/checkpoints/model_4.pt"]
        assert play("rl_games", [task, *flags]) == 0
    assert (resumed / "exported" / "policy.pt").is_file() == (kind != "recurrent")


def test_linear_schedules_end_with_the_budget_of_frames(tmp_path: Path):
    """The entropy coefficient follows; rl_games itself would go by max_epochs, which is 150."""
    frames = f"--max_frames={4 * 16 * 32}"
    words = [*KINDS["linear"], f"{CONFIG}.entropy_coef=0.01", frames]
    assert train_in("rl_games", tmp_path, *words) == 0
    rates = [record["learning_rate"] for record in metrics_of(only_run(tmp_path))]
    expected = [1e-6 + (3e-4 - 1e-6) * left / 4 for left in (3, 2, 1, 0)]
    assert rates == pytest.approx(expected)
    state = checkpoint_of(only_run(tmp_path), 4)["model"]
    assert state["entropy_coef"] == pytest.approx(1e-4)


def test_the_librarys_own_restore_would_forget_the_learning_rate(tmp_path: Path):
    env, context = env_of(TASK), DistributedContext.single("cpu")
    trained, stock, ours = (
        RlGamesLearner(env, agent_cfg(4), context, grad_sync="ddp") for _ in range(3)
    )
    trained.agent.last_lr = 1e-5
    stock.agent.set_full_state_weights(trained.agent.get_full_state_weights())
    ours.load_models({"model": trained.model_state()})
    assert (stock.agent.last_lr, ours.agent.last_lr) == (3e-4, 1e-5)
    env.close()


def test_the_run_ends_once_the_score_is_won(tmp_path: Path):
    score = [f"{CONFIG}.score_to_win=-1000.0", f"{CONFIG}.save_best_after=3"]
    assert train_in("rl_games", tmp_path, *CARTPOLE, *score, "--max_iterations=50") == 0
    run = only_run(tmp_path)
    assert [record["iteration"] for record in metrics_of(run)] == [1, 2, 3]
    assert checkpoint_of(run, 3)["iteration"] == 3


def test_sac_remembers_the_states_in_which_time_limits_ended_episodes():
    """rl_games would store the state before, and the observation after a reset is neither."""
    env, context = env_of(TASK), DistributedContext.single("cpu")
    params = {
        "env": {"clip_actions": 1.0},
        "network": {"name": "soft_actor_critic", "log_std_bounds": [-5.0, 2.0], "mlp": MLP},
        "config": {"num_warmup_steps": 2, "replay_buffer_size": 100},
        "algo": {"name": "sac"},
        "model": {"name": "soft_actor_critic"},
    }
    cfg = merge(RlGamesCfg(), {"params": params}, "agent", given_keys=True)
    learner = SacLearner(env, cfg, context)
    limit = env.max_episode_length
    env.episode_length_buf = torch.tensor([0, limit - 1, 5, limit - 1])
    seen: dict[str, Any] = {}
    before = learner.env.observations()["obs"]
    learner.iterate(1, lambda rewards, ended, info: seen.update(ended=ended, info=info))
    memory, final = learner.agent.replay_buffer, seen["info"]["final_obs"]["policy"]
    after = learner.env.observations()["obs"]
    assert seen["ended"].tolist() == [False, True, False, True]
    assert torch.equal(memory.obses[:4], before)
    assert torch.equal(memory.next_obses[:4:2], after[::2])
    assert torch.equal(memory.next_obses[1:4:2], final[1::2])
    assert not torch.isclose(final[1::2], after[1::2]).all()
    assert not memory.dones.any()  # values bootstrap
    explored = memory.actions[:4]  # uniformly between the bounds, as it is the first iteration
    assert len(explored.unique()) == 4
    assert explored.abs().max() < 1.0
    env.close()
