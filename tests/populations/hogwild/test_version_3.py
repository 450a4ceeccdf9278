"""Specs of SLM-Lab 3 and of 4.0 to 4.2 keep their meaning, and train."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from envlab.cli import main
from envlab.errors import ConfigurationError
from envlab_populations.hogwild import atari
from envlab_populations.hogwild.baseline import BASELINES
from envlab_populations.hogwild.networks import Layers
from envlab_populations.hogwild.spec import make_spec
from envlab_populations.hogwild.translation import Plan, make_plan
from tests.populations.hogwild.test_slm_lab import DQN, changed, plan_of, trained

VERSION_3: dict[str, Any] = yaml.safe_load("""
agent:
  - name: DQN
    algorithm: {name: DQN, action_pdtype: Argmax, action_policy: epsilon_greedy, gamma: 0.9,
      explore_var_spec:
        {name: linear_decay, start_val: 1.0, end_val: 0.1, start_step: 0, end_step: 5},
      training_batch_epoch: 3, training_epoch: 2, training_frequency: 1, training_start_step: 1,
      normalize_state: true}
    memory: {name: Replay, batch_size: 8, max_size: 500, use_cer: false}
    net: {type: MLPNet, hid_layers: [8], hid_layers_activation: tanh, update_type: replace,
      update_frequency: 8}
env: [{name: CartPole-v1, max_t: 20, max_tick: 10}]
body: {product: outer, num: 1}
meta: {distributed: false, max_tick_unit: epi, max_session: 1, resources: {}, log_frequency: 100}
""")


def of_version_3(**parts: Any) -> dict[str, Any]:
    spec = deepcopy(VERSION_3)
    for name, values in parts.items():
        part = spec["agent"][0].get(name) or (spec[name] if name == "meta" else spec[name][0])
        part.update(values)
    return spec


def game(memory: str, **env: Any) -> Plan:
    pytest.importorskip("ale_py", reason="needs ale-py: pip install -e '.[atari]'")
    net = {"type": "ConvNet", "conv_hid_layers": [[4, 8, 4, 0, 1]], "fc_hid_layers": [8]}
    words = {"name": "ALE/Pong-v5", "max_t": None, "max_tick": 50} | env
    memories = {"name": memory, "stack_len": 4, "alpha": 0.6, "epsilon": 0.0001}
    meta = {"max_tick_unit": "total_t"}
    return plan_of(of_version_3(memory=memories, net=net, env=words, meta=meta))


def test_episodes_count_as_their_longest(caplog: pytest.LogCaptureFixture):
    plan = plan_of(VERSION_3)
    settings = plan.agent.settings
    assert plan.max_frame == 200  # ten episodes of twenty steps
    assert "an episode counts as its longest, 20 frames" in caplog.text
    assert "/ 100.0" in settings["exploration_scheduler"]  # five episodes
    assert settings["learning_starts"] == 20
    assert settings["gradient_steps"] == 6  # two batches, three times each
    assert settings["observation_preprocessor"] == "RunningStandardScaler"
    assert not [line for line in plan.report if "epoch" in line or "normalize" in line]
    several = of_version_3(meta={"distributed": True, "max_session": 2})
    assert plan_of(several).agent.distributed == "shared"


def test_a_budget_in_steps_is_one_in_frames():
    for words in ({"max_tick": 300}, {"max_total_t": 300}):
        spec = of_version_3(meta={"max_tick_unit": "total_t"})
        del spec["env"][0]["max_tick"]
        spec["env"][0] |= words
        plan = plan_of(spec)
        assert plan.max_frame == 300
        assert "/ 5.0" in plan.agent.settings["exploration_scheduler"]
    spec = make_spec("mine", VERSION_3, ["env.max_frame=70"], origin="a test")
    assert make_plan(spec).max_frame == 70  # the command line's frames come first
    wrong = {"search": {"agent": {"memory": {"max_size_choice": [100]}}}}
    assert plan_of(DQN | wrong).max_frame == 100  # which stops a search only


def test_recurrent_networks_see_the_last_steps_one_after_the_other():
    net = {"type": "RecurrentNet", "fc_hid_layers": [6], "rnn_hidden_size": 5, "seq_len": 3}
    spec = of_version_3(memory={"name": "SeqReplay"}, net=net, env={"max_tick": 3})
    assert plan_of(spec).env["num_frames"] == 3
    steps, linear, *_ = trained(spec).agent.q_network.net
    assert (steps.unflattened_size, linear.in_features) == ((3, 4), 4)
    layers = Layers((6,), 0, 2, plan_of(spec).agent.net)  # three steps of two numbers
    seen = torch.randn(4, 3, 2)
    features = layers[2](layers[1](seen))  # the linear layer, for each step
    _, last = layers[3].cells(features)
    torch.testing.assert_close(layers(seen.flatten(1)), layers[4](last[-1]))


def test_concatenated_observations_are_those_of_the_last_steps():
    learner = trained(changed(DQN, env={"frame_op": "concat", "frame_op_len": 4}))
    assert learner.agent.q_network.net[0].in_features == 16
    plan = plan_of(of_version_3(memory={"name": "ConcatReplay", "concat_len": 4}))
    assert (plan.env["num_frames"], plan.env["frame_padding"]) == (4, "zero")
    assert "agent.memory.concat_len" not in str(plan.report)


def test_memories_of_games_clip_rewards_and_have_the_four_frames_that_wrappers_join():
    for memory in ("AtariReplay", "AtariPrioritizedReplay"):
        plan = game(memory)
        assert plan.agent.reward_bounds == [-1.0, 1.0]
        assert bool(plan.agent.replay.alpha) == ("Prioritized" in memory)
        assert atari.__name__ in plan.task
        assert "num_frames" not in plan.env
    with pytest.raises(
        ConfigurationError, match=r"frame_op_len in .* is 2, but games have 4 frames here"
    ):
        game("Replay", frame_op="concat", frame_op_len=2)


@pytest.mark.long
def test_each_value_of_spec_params_is_trained_and_what_cannot_be_is_named_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    spec = changed(DQN, env={"name": "${env}"})
    spec["spec_params"] = {"env": ["CartPole-v1", "Gone-v7", "Acrobot-v1"]}
    Path("mine.json").write_text(json.dumps({"mine": spec}))
    BASELINES.parent.mkdir(parents=True)  # measuring them would take longer than to train
    BASELINES.write_text(json.dumps({"gym:CartPole-v1": 0.0, "gym:Acrobot-v1": 0.0}))
    assert main(["lab", "run", "mine.json", "mine", "dev"]) == 2
    error = capsys.readouterr().err
    assert "1 of the 3 specs of spec_params cannot be trained: mine_Gone-v7." in error
    folders = sorted(path.name for path in Path("logs/hogwild").iterdir() if path.is_dir())
    assert folders == ["mine_Acrobot-v1_dev", "mine_CartPole-v1_dev"]
