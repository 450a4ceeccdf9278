"""Spec files of both versions are read as they are; errors in them are one sentence."""

from __future__ import annotations

import functools
import json
import math
import operator
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from envlab.cli import main
from envlab.config import load_yaml
from envlab.errors import ConfigurationError
from envlab_populations.hogwild import preparation
from envlab_populations.hogwild.baseline import BASELINES
from envlab_populations.hogwild.environments import read_heirs, with_heir
from envlab_populations.hogwild.preparation import Options, check_cores, choose_device
from envlab_populations.hogwild.spec import load_spec, make_spec, parse_value, read_specs
from envlab_populations.hogwild.translation import make_plan
from tests.bait import BAIT, bait
from tests.populations.hogwild.test_slm_lab import linear_decay
from tests.trained import manifest_of, metrics_of, only_run

__all__ = ["bait"]

SPECS = Path("source/envlab_populations/specs")
SAC: dict[str, Any] = yaml.safe_load("""
agent:
  name: SoftActorCritic
  algorithm: {name: SoftActorCritic, gamma: 0.98, training_frequency: 16, training_iter: 2,
    training_start_step: 1000}
  memory: {name: Replay, batch_size: 128, max_size: 50_000, use_cer: true}
  net: {type: MLPNet, hid_layers: [64, 32], hid_layers_activation: relu, init_fn: orthogonal_,
    clip_grad_val: 0.5, loss_spec: {name: MSELoss}, optim_spec: {name: GlobalAdam, lr: 1.0e-4},
    update_type: polyak, polyak_coef: 0.01, gpu: false}
env: {name: HalfCheetah-v5, num_envs: 4, max_t: null, max_frame: 1.0e+5}
meta: {distributed: shared, max_session: 4, log_frequency: 2000, max_trial: 1}
""")


def with_value(path: str, value: Any) -> dict[str, Any]:
    """Return a spec with another value at a path."""
    spec = deepcopy(SAC)
    *folders, last = path.split(".")
    functools.reduce(operator.getitem, folders, spec)[last] = value
    return spec


def plan_of(spec: dict[str, Any], *settings: str, dev: bool = False) -> Any:
    return make_plan(make_spec("mine", spec, settings, origin="a test"), dev=dev)


def test_a_spec_in_envlabs_terms():
    plan = plan_of(SAC)
    of_4 = deepcopy(SAC) | {"agent": [SAC["agent"]], "env": [SAC["env"]]}
    assert plan_of(of_4 | {"body": {"product": "outer", "num": 1}}) == plan  # of SLM-Lab 4
    agent, settings = plan.agent, plan.agent.settings
    assert (plan.task, plan.env) == ("gym:HalfCheetah-v5", {"scene": {"num_envs": 4}})
    assert (agent.algorithm, agent.distributed, agent.num_sessions) == ("sac", "shared", 4)
    # 100,000 frames of 4 sessions; iterations of 2,000 frames in 4 environments.
    assert (agent.num_steps_per_env, agent.max_iterations) == (500, 12)
    # An update every 16 frames, so every 4 steps of the environments, of 2 gradient steps.
    assert (agent.update_interval, settings["gradient_steps"]) == (4, 2)
    assert (settings["learning_starts"], settings["random_timesteps"]) == (250, 250)
    assert (settings["discount_factor"], settings["polyak"]) == (0.98, 0.01)
    assert (settings["batch_size"], settings["grad_norm_clip"]) == (128, 0.5)
    assert (settings["learning_rate"], agent.optimizer) == (1e-4, "adam")
    assert (agent.replay.size, agent.replay.use_cer) == (50_000, True)
    assert (agent.net.hidden_layers, agent.net.init) == ([64, 32], "orthogonal")
    assert (agent.precision, plan.report) == ("float32", ())
    assert plan_of(SAC, "agent.net.bfloat16=true").agent.precision == "auto"


def test_a_variable_decays_by_frames_of_the_session():
    algorithm = {"name": "DQN", "explore_var_spec": linear_decay(1.0, 0.1, 100, 500)}
    spec = with_value("agent.algorithm", algorithm)
    formula = plan_of(spec).agent.settings["exploration_scheduler"]
    values = [eval(formula, {"timestep": step, "min": min, "max": max}) for step in (0, 75, 200)]
    assert values == pytest.approx([1.0, 0.55, 0.1])  # at 0, 300 and 800 frames of 4 environments


def test_placeholders_take_the_only_choice_or_the_given_value():
    spec = with_value("env.name", "${env}-v5") | {"spec_params": {"env": ["Ant"]}}
    spec["env"]["max_frame"] = "${frames}"
    assert plan_of(spec, "frames=1e4").task == "gym:Ant-v5"
    assert plan_of(spec, "frames=1e4", "env=Hopper").max_frame == 10_000
    with pytest.raises(ConfigurationError, match=r"leaves \$\{frames\} open.*-s frames=VALUE"):
        plan_of(spec)


def test_spec_files_are_read_as_slm_lab_reads_them(tmp_path: Path):
    """Its JSON reader takes trailing commas; YAML files begin with parts that specs refer to."""
    text = json.dumps({"mine": SAC}).replace("}}", ",},}")[:-1] + ", // a comment\n}"
    (tmp_path / "spec.json").write_text(text)
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    assert read_specs(tmp_path / "spec.json") == {"mine": SAC}
    (tmp_path / "spec.yaml").write_text(f"_env: &env {json.dumps(SAC['env'])}\nmine: {{env: *env}}")
    assert read_specs(tmp_path / "spec.yaml") == {"mine": {"env": SAC["env"]}}


def test_environments_that_are_gone_have_heirs_which_a_user_can_name(tmp_path: Path, caplog):
    def heir_of(name: str, file: Path | None = None) -> tuple[str, str | None]:
        given = make_spec("mine", with_value("env.name", name), origin="x")
        spec = with_heir(given, read_heirs(file))
        return spec.env["name"], spec.replaced_env

    assert heir_of("RoboschoolHumanoid-v1") == ("Humanoid-v5", "RoboschoolHumanoid-v1")
    assert "RoboschoolHumanoid-v1 no longer exists: Humanoid-v5 replaces it." in caplog.text
    assert heir_of("LunarLander-v2") == ("LunarLander-v3", "LunarLander-v2")
    assert heir_of("HalfCheetah-v4") == ("HalfCheetah-v4", None)  # Gymnasium still has it
    assert heir_of("NoSuchThing-v0") == ("NoSuchThing-v0", None)
    mine = tmp_path / "mine.yaml"
    mine.write_text("NoSuchThing-v0: Ant-v5\nRoboschoolHumanoid-v1: Humanoid-v4\n")
    assert heir_of("NoSuchThing-v0", mine)[0] == "Ant-v5"
    assert heir_of("RoboschoolHumanoid-v1", mine)[0] == "Humanoid-v4"


def test_dev_is_one_session_that_is_long_enough_to_learn():
    plan = plan_of(SAC, dev=True)
    frames = plan.agent.max_iterations * plan.agent.num_steps_per_env * 4
    assert plan.agent.num_sessions == 1
    assert 1000 < frames <= 4000


def test_sac_begins_as_in_slm_lab_where_a_spec_is_silent():
    """With a temperature of 1, after 1,000 frames or a batch."""
    spec = deepcopy(SAC)
    del spec["agent"]["algorithm"]["training_start_step"]
    for batch, frames in ((128, 1000), (2048, 2048)):
        spec["agent"]["memory"]["batch_size"] = batch
        settings = plan_of(spec).agent.settings
        assert settings["initial_entropy_value"] == 1.0
        assert settings["learning_starts"] * 4 == frames


def test_ranges_to_search_are_found_however_deep_they_are_written():
    spec = deepcopy(SAC)
    spec["search"] = {
        "agent": [{"algorithm": {"gamma__uniform": [0.9, 0.999]}}],
        "agent.net.optim_spec.lr__loguniform": [1e-5, 1e-3],
    }
    assert make_spec("mine", spec, origin="a test").search == {
        "agent.algorithm.gamma__uniform": [0.9, 0.999],
        "agent.net.optim_spec.lr__loguniform": [1e-5, 1e-3],
    }


def test_keys_without_effect_are_named_and_slm_labs_own_are_no_misspellings():
    spec = with_value("meta.rigorous_eval", 0)
    spec["agent"]["algorithm"]["gama"] = 0.9
    spec["meta"] |= {"eval_frequency": 1000, "log_freqency": 3}
    del spec["agent"]["algorithm"]["gamma"], spec["meta"]["log_frequency"]
    assert [line.partition("'mine': ")[2] for line in plan_of(spec).report] == [
        "agent.algorithm.gama has no effect: nothing here is like it. Did you mean gamma?",
        "meta.rigorous_eval has no effect: sessions are measured as they train",
        "meta.eval_frequency has no effect: sessions are measured as they train",
        "meta.log_freqency has no effect: nothing here is like it. Did you mean log_frequency?",
    ]
    spec = make_spec("mine", SAC, ["meta.eval_frequency=9", "meta.max_session=1"], origin="a test")
    (line,) = make_plan(spec, dev=True).report  # where the number of sessions is always 1
    assert "eval_frequency has no effect: sessions are measured" in line


def test_targets_of_dqn_follow_by_frames():
    for net, interval, polyak in (
        # Two gradient steps every 8 frames, which are two steps of 4 environments.
        ({"update_type": "replace", "update_frequency": 80}, 20, 1.0),
        ({"update_type": "replace", "update_frequency": 3}, 2, 1.0),
        ({"update_type": "polyak", "polyak_coef": 0.1}, 2, 0.19),
    ):
        algorithm = {"name": "DQN", "training_frequency": 8, "training_iter": 2}
        spec = with_value("agent.algorithm", algorithm)
        spec["agent"]["net"] = net
        settings = plan_of(spec).agent.settings
        assert settings["target_update_interval"] == interval
        assert settings["polyak"] == pytest.approx(polyak)


def test_values_are_set_by_their_path_or_by_a_name_that_the_spec_has_once():
    assert plan_of(SAC, "agent.net.hid_layers=[8]").agent.net.hidden_layers == [8]
    spec = make_spec("mine", SAC, ["max_frame=3e6", "gamma=0.9"], origin="a test")
    assert spec.env["max_frame"] == 3e6
    assert spec.agent["algorithm"]["gamma"] == 0.9
    for text, value in (("1.6e5", 160000.0), ("2E-3", 2e-3), ("1e", "1e"), ("7", 7)):
        assert parse_value(text) == value
        assert type(parse_value(text)) is type(value)


def test_more_sessions_than_cores_are_reported_with_both_numbers(monkeypatch, caplog):
    monkeypatch.setattr(preparation, "usable_cores", lambda: 3)
    check_cores(plan_of(SAC, "meta.max_session=3"))
    assert not caplog.messages
    check_cores(plan_of(SAC))
    assert "4 sessions for 3 cores" in caplog.text


def test_sessions_synchronise_on_processors_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preparation, "resolve_device", lambda *_: torch.device("cuda:0"))
    options = Options(device="cuda", timeout_s=1.0)
    assert choose_device(plan_of(SAC), options) == "cuda:0"
    with pytest.raises(ConfigurationError, match="'synced' on a GPU"):
        choose_device(plan_of(SAC, "meta.distributed=synced"), options)


def test_all_shipped_specs_can_be_planned():
    paths = sorted(SPECS.rglob("*.json"))
    assert paths
    for path in paths:
        for name in read_specs(path):
            plan = make_plan(load_spec(path, name))
            assert plan.report == ()


@pytest.mark.parametrize("place", ["env", "search", "whole", "heir", "saved", "enjoyed"])
def test_a_specs_environment_imports_a_strangers_module_only_if_it_is_trusted(
    place: str, tmp_path: Path, bait: None, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("optuna", reason="needs optuna: pip install -e '.[lab]'")
    for name in (f"{BAIT}:Bait-v0", f"gym:{BAIT}:Bait-v0"):
        spec, words, mode = with_value("env.name", "Pendulum-v1"), [], "train"
        if place == "env":
            spec["env"]["name"] = name
        elif place == "heir":
            Path("heirs.yaml").write_text(f"Pendulum-v1: '{name}'")
            words = ["--environments=heirs.yaml"]
        elif place in ("saved", "enjoyed"):
            mode = "train@trial" if place == "saved" else "enjoy@trial"
            saved_trial(name, in_spec=place == "saved")
        else:
            whole = [spec["env"], spec["env"] | {"name": name}]
            choices = ["Pendulum-v1", name] if place == "search" else whole
            path = "env.name" if place == "search" else "env"
            spec["search"], mode = {f"{path}__choice": choices}, "search"
        Path("mine.json").write_text(json.dumps({"mine": spec}))
        assert main(["lab", "run", "mine.json", "mine", mode, *words]) == 2
        assert f"names code of {BAIT}, which no task" in capsys.readouterr().err
        assert BAIT not in sys.modules


def saved_trial(name: str, *, in_spec: bool) -> None:
    """Write a trial whose spec or manifest names an environment."""
    for folder in ("params", "checkpoints"):
        Path("trial", folder).mkdir(parents=True, exist_ok=True)
    Path("trial/checkpoints/model_1.pt").touch()
    facts = {"library": "hogwild"}
    if in_spec:
        spec = {"mine": with_value("env.name", name)}
        Path("trial/params/spec.yaml").write_text(json.dumps(spec))
    else:
        facts |= {"task": f"gym:{name.removeprefix('gym:')}", "algorithm": "sac"}
    Path("trial/run.json").write_text(json.dumps(facts))


def test_a_strangers_module_is_imported_where_the_user_says_so(bait: None, capsys):
    spec = with_value("env.name", f"{BAIT}:Bait-v0")
    Path("mine.json").write_text(json.dumps({"mine": spec | {"meta": {"max_session": -1}}}))
    for words in ([f"--trust={BAIT}"], ["-s", f"env.name={BAIT}:Bait-v0"]):
        assert main(["lab", "run", "mine.json", "mine", "train", *words]) == 2
        assert BAIT in sys.modules, capsys.readouterr().err
        del sys.modules[BAIT]


FILES = Path(__file__).parent / "peer_files"
KINDS: dict[str, tuple[str, str, int, str, dict[str, Any]]] = {
    "a3c_nstep_cartpole": (
        *("version_3.json", "train", 400, "gym:CartPole-v1"),
        {"algorithm": "a2c", "distributed": "synced", "num_sessions": 2, "num_steps_per_env": 5},
    ),
    "dqn_per_cartpole": (
        *("values.json", "dev", 400, "gym:CartPole-v1"),
        {"algorithm": "dqn", "replay.alpha": 0.6, "net.dueling": True, "loss": "huber"},
    ),
    "ppo_pendulum": (
        *("version_5.yaml", "dev", 800, "gym:Pendulum-v1"),
        {"optimizer": "adamw", "normalize_rewards": True, "settings.mini_batches": 5},
    ),
}
"""By spec: its file, the mode, frames of all sessions, the task, and values in ``agent.yaml``."""


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_a_spec_trains_as_it_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Most run in the mode ``dev``, which fails if a parameter stays or is no longer a number."""
    file, mode, frames, task, honoured = KINDS[name]
    monkeypatch.chdir(tmp_path)
    BASELINES.parent.mkdir(parents=True)
    BASELINES.write_text(json.dumps({task: 0.0}))  # measuring it takes longer than these runs
    assert main(["lab", "run", str(FILES / file), name, mode]) == 0
    run = only_run(tmp_path)
    records, agent = metrics_of(run), load_yaml(run / "params/agent.yaml")
    assert manifest_of(run)["status"] == "finished"
    assert manifest_of(run)["task"] == task
    assert records[-1]["frames"] == frames
    losses = records[-1]["losses"].values()
    assert losses
    assert all(loss is not None and math.isfinite(loss) for loss in losses)
    for path, expected in honoured.items():
        assert functools.reduce(operator.getitem, path.split("."), agent) == expected
