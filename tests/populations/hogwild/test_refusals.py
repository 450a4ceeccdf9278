"""What a spec of SLM-Lab's cannot have here is refused in one sentence that names it."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from envlab.cli import main
from envlab.errors import ConfigurationError
from envlab_populations.hogwild import atari
from envlab_populations.hogwild.environments import read_heirs
from envlab_populations.hogwild.spec import make_spec
from tests.populations.hogwild.test_crossq import ADAM, CROSSQ, LAYERS, NORM
from tests.populations.hogwild.test_images import CONV, SEEN
from tests.populations.hogwild.test_slm_lab import (
    DQN,
    PPO,
    arc,
    boltzmann,
    changed,
    learner_of,
    plan_of,
)
from tests.populations.hogwild.test_spec import SAC, with_value
from tests.populations.hogwild.test_version_3 import of_version_3
from tests.refusals import check_refusals

VALUES = (
    ("agent.algorithm.name", "Sarssa", "no counterpart; use one of SoftActorCritic"),
    ("agent.memory.name", "OnPolicyReplay", "must be one of 'Replay', 'PrioritizedReplay'"),
    ("agent.algorithm.fixed_alpha", 0.02, "skrl's SAC has no such setting"),
    ("agent.net.type", "GraphNet", "must be one of 'MLPNet', "),
    ("agent.net.batch_norm", True, "set it to false"),
    ("agent.net.optim_spec", {"name": "SGD"}, "must be one of 'Adam', "),
    ("agent.net.optim_spec", {"lr": 0}, "must be a number above 0"),
    ("agent.net.optim_spec", {"name": "RMSprop", "betas": [0, 0]}, "only lr, alpha, eps"),
    ("agent.net.optim_spec", {"betas": [0.5, 1]}, "of at least 0 and below 1"),
    ("agent.net.optim_spec", {"betas": [0.5]}, "must be a list of two numbers"),
    ("agent.net.critic_optim_spec", {"name": "AdamW"}, "differs in lr alone"),
    ("agent.net.lr_scheduler_spec", {"name": "CosineLR"}, "must be one of 'LinearToZero'"),
    ("agent.net.lr_scheduler_spec", {"name": "StepLR"}, "must be frames, at least 1"),
    ("agent.net.hid_layers", [64, 0], "must be a list of whole numbers"),
    ("agent.net.hid_layers", [10**5, 10**5], "makes more than 134,217,728 parameters"),
    ("agent.net.init_fn", "orthogonal", "Did you mean orthogonal_?"),
    ("agent.net.update_type", "replace", "follow by 'polyak'"),
    ("env.name", "HalfCheeta-v5", "Did you mean"),
    ("env.max_frame", None, "env.max_frame is absent"),
    ("meta.distributed", "async", "must be one of 'false', 'shared', 'synced'"),
    ("meta.max_session", 0, "must be a number of at least 1"),
)
"""Paths in a spec, their values, and the answers."""
ARCHITECTURES = (
    (arc({"Tahn": None}), "Did you mean Tanh?"),
    (arc({"Module": None}), "layers must be of LazyLinear"),
    (arc({"LazyConv2d": {"out_channels": 8}}), "must be whole numbers of out_channels"),
    (arc({"LazyLinear": {"out_features": 0}}), "must be {out_features: SIZE}"),
    (arc(*[{"LazyLinear": {"out_features": 10**5}}] * 2), "makes more than 134,217,728"),
    (arc({"LayerNorm": {"normalized_shape": [8]}}), "after a layer"),
    (arc({"Tanh": {"x": 1}}), "activations have no arguments here"),
    (arc({"Tanh": None}, modules={"body": ["x", "y"]}), "only a chain is made here"),
    (arc({"Tanh": None}, modules={"body": ["body"]}), "only a chain is made here"),
    ({"type": "TorchArcNet", "arc_file": "mine.yaml"}, "architectures are read from the spec"),
    ({"type": "TorchArcNet"}, "must have modules and a graph"),
    (arc(*LAYERS, NORM), "batch norms are CrossQ's. Leave them out of dqn"),
    *((CONV | {"conv_hid_layers": one}, "conv_hid_layers") for one in ([], [[3, 4]], 8)),
    (CONV | {"conv_hid_layers": [[3, 0, 1, 0, 1]]}, "conv_hid_layers"),
)
REWARDS = (
    ({"normalize_reward": True, "reward_scale": 2.0}, "normalize_reward undoes it"),
    ({"clip_reward": [2, 1]}, "must be a number above 0, or two that rise"),
    ({"clip_reward": "sign"}, "must be a number above 0, or two that rise"),
    ({"clip_obs": 5}, "observations are clipped with normalize_obs only"),
    ({"reward_scale": "sign"}, "only games' whole rewards have signs here"),
    ({"frame_op": "sum"}, "must be one of 'concat', 'stack'"),
)
EXPLORATION = (
    (boltzmann(1.0, 0.0), "a temperature must be above 0"),
    (boltzmann(1.0, None), "needs end_val, and an end_step after start_step"),
    (boltzmann(1.0, 1.0) | {"explore_var_spec": None}, "explore_var_spec.start_val in"),
    (boltzmann(1.0, 1.0) | {"action_pdtype": "Normal"}, "must be one of 'Argmax', 'Categorical'"),
    ({"name": "HydraDQN"}, "SLM-Lab has had none since version 4.3"),
    ({"action_policy": "greedy"}, "must be one of 'epsilon_greedy', 'boltzmann'"),
    ({"name": "VanillaDQN"}, "VanillaDQN has no target network"),
)


def crossq(part: str, **values: Any) -> dict[str, Any]:
    spec = deepcopy(CROSSQ)
    (spec["agent"] if part in spec["agent"] else spec)[part] |= values
    return spec


def several() -> list[tuple[dict[str, Any], str]]:
    """Return specs in which parts do not fit each other."""
    both = {"actor_arc": arc(*LAYERS)["arc"], "critic_arc": arc(LAYERS[0], "SiLU")["arc"]}
    critics = deepcopy(DQN)
    critics["agent"]["critic_net"] = {}
    recurrent = {"type": "RecurrentNet", "seq_len": 3}
    unlike = arc(*LAYERS, NORM, {"LazyBatchNorm1d": None})
    return [
        (changed(PPO, net={"type": "TorchArcNet", "shared": True, **both}), "ppo shares layers"),
        (changed(PPO, memory={"name": "OnPolicyReplay"}), "of one environment: env.num_envs 1"),
        (
            changed(DQN, net=recurrent, env={"frame_op": "stack", "frame_op_len": 4}),
            r"frame_op_len in the spec 'mine' is 4, but agent\.net\.seq_len is",
        ),
        (of_version_3(meta={"max_tick_unit": "hours"}), "must be one of 'epi', 'total_t'"),
        (crossq("critic_net", optim_spec=ADAM | {"lr": 1.0}), "only layers differ here"),
        (crossq("meta", distributed="shared"), "sessions of CrossQ cannot share networks"),
        (crossq("critic_net", **unlike), "batch norms must be set alike"),
        (crossq("algorithm", symlog=True), "symlog in .* is True, but CrossQ here"),
        (crossq("memory", name="PrioritizedReplay"), "must be one of 'Replay'"),
        (critics, "dqn has one kind of network"),
    ]


def test_what_a_spec_cannot_have_is_refused_by_name(monkeypatch: pytest.MonkeyPatch):
    plan = lambda *words: plan_of(with_value(*words))  # noqa: E731
    check_refusals(plan, [(path, one, re.escape(words)) for path, one, words in VALUES])
    for part, base, rows in (
        *(("net", DQN, ARCHITECTURES), ("env", PPO, REWARDS)),
        ("algorithm", DQN, EXPLORATION),
    ):
        specs = [(changed(base, **{part: one}), re.escape(words)) for one, words in rows]
        check_refusals(plan_of, specs)
    check_refusals(plan_of, several())
    of_images = changed(DQN, net=CONV | {"conv_hid_layers": [[3, 20, 1, 0, 1]]}, env=SEEN)
    unfit = [(changed(DQN, net=CONV), "Convolutions are for images"), (of_images, "does not fit")]
    check_refusals(learner_of, unfit)
    monkeypatch.setattr(atari, "has_ale", lambda: False)
    game = changed(DQN, env={"name": "ALE/Pong-v5"})
    check_refusals(plan_of, [(game, r"needs ale-py.*\[atari\]")])
    monkeypatch.setattr("gymnasium.registry", {})
    endless = of_version_3(env={"max_t": None})
    check_refusals(plan_of, [(endless, r"have no limit.*max_tick_unit=total_t")])


def test_settings_of_the_command_line_are_refused_by_name(tmp_path: Path):
    def set_to(setting: str) -> None:
        make_spec("mine", SAC, [setting], origin="a test")

    (tmp_path / "mine.yaml").write_text("NoSuchThing-v0: [Ant-v5]\n")
    check_refusals(
        set_to,
        [
            ("name=Ant-v5", "'name' is neither a placeholder of the spec nor"),  # it has several
            ("metta.max_session=2", r"Did you mean meta\.max_session"),
            ("max_session", "must be KEY=VALUE"),
        ],
    )
    with pytest.raises(ConfigurationError, match=r"each line must be OLD: NEW"):
        read_heirs(tmp_path / "mine.yaml")


def test_errors_that_only_a_trial_finds_are_one_sentence(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = with_value("env.name", "Pendulum-v1")
    spec["agent"]["algorithm"] = {"name": "DQN"}
    Path("mine.json").write_text(json.dumps({"mine": spec}))
    Path("empty").mkdir()
    Path("empty", "run.json").write_text(json.dumps({"library": "hogwild"}))
    for mode, answer in (
        ("train", "DQN needs actions of a Discrete space"),
        ("enjoy@empty", "'empty' has no model"),
    ):
        assert main(["lab", "run", "mine.json", "mine", mode]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("error: ")
        assert answer in error
    assert not list(Path().glob("logs/hogwild/*/*"))
    # The tutorial's file is found by its name; it has nothing to search.
    path = "slm_lab/spec/benchmark/async_sac/async_sac_roboschool.json"
    assert main(["lab", "run", path, "async_sac_humanoid", "search"]) == 2
    assert "'async_sac_humanoid'" in capsys.readouterr().err
