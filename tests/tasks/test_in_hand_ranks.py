"""The LSTM of OpenAI's Shadow hand, and its critic that sees more, learn on two ranks."""

from __future__ import annotations

import json
import math

from tests.launcher import TRAIN, run, torchrun

TASK = "Isaac-Repose-Cube-Shadow-OpenAI-LSTM-Direct-v0"
SMALLER = [
    "agent.params.config.minibatch_size=32",
    "agent.params.config.mini_epochs=1",
    "agent.params.config.central_value_config.minibatch_size=32",
    "agent.params.config.central_value_config.mini_epochs=1",
    "agent.params.network.rnn.units=16",
    "agent.params.config.central_value_config.network.rnn.units=16",
]


def test_two_ranks_train_for_two_iterations_and_agree(tmp_path):
    flags = [f"--task={TASK}", "--distributed", "--device=cpu", "--num_envs=4"]
    script = TRAIN.parents[1] / "rl_games" / "train.py"
    # The audit after the first update stops the run if the ranks' parameters or normalisers differ.
    command = torchrun(2, script, *flags, "--max_iterations=2", *SMALLER)
    code, output = run(command, tmp_path, 180.0)
    assert code == 0, output
    (metrics,) = tmp_path.glob("logs/rl_games/shadow_hand_openai_lstm/*/metrics.jsonl")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert rows[-1]["iteration"] == 2
    assert rows[-1]["frames"] == 2 * 16 * 8  # of both ranks
    assert {"a_loss", "cval_loss"} <= set(rows[-1]["losses"])
    assert all(math.isfinite(value) for value in rows[-1]["losses"].values())
