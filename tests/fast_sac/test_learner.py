"""FastSAC on one rank and on two: ranks agree, compute the same as one, and resume exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from envlab.cli import play
from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.fast_sac.cfg import FastSacCfg
from envlab.fast_sac.replay import Batch
from tests.fast_sac import updates
from tests.fast_sac.updates import BATCH, NUM_ENVS, SMALL, batch_of, make_learner
from tests.launcher import torchrun
from tests.learner_contract import LearnerContract
from tests.small_runs import check_same_end, train_in
from tests.trained import Pair, checkpoint_of, launch_pair, metrics_of, on_one_thread, only_run

ALONE = DistributedContext.single("cpu")


def test_steps_are_followed_by_updates_and_the_policy_plays_and_is_exported(
    trained: Path, capsys: pytest.CaptureFixture[str]
):
    model = checkpoint_of(trained, 4)["model"]
    assert model["num_updates"] == (4 * 8 - 3) * 2
    steps = {name: model[f"{name}_optimizer"]["state"][0]["step"] for name in ("critic", "actor")}
    assert steps == {"critic": (4 * 8 - 3) * 2, "actor": 4 * 8 - 3}
    assert metrics_of(trained)[-1]["frames"] == 4 * 8 * 16
    words = ["--task=Isaac-Cartpole-v0", f"--checkpoint={trained}/checkpoints/model_4.pt"]
    assert play("fast_sac", [*words, "--device=cpu", "--num_episodes=4"]) == 0
    output = capsys.readouterr().out
    assert "Mean return" in output
    assert (trained / "exported/policy.pt").is_file()


def test_updates_and_batches_of_a_step_do_not_depend_on_the_number_of_ranks(
    pair: Pair, single_update: dict[str, Any]
):
    _, alone = updates.observed(ALONE)
    assert pair.ends["sac"][0]["updates"] == alone.num_updates == 2 * 2
    assert [end["batch"] for end in pair.ends["sac"]] == [[BATCH // 2] * 4] * 2
    names = single_update["gradients"]
    assert any(name.startswith("actor") for name in names)
    assert "critics.log_temperature" in names


def test_nothing_is_learned_before_a_batch_is_stored_and_one_that_cannot_be_is_refused(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("envlab.precision.has_bfloat16", lambda device: False)
    with pytest.raises(ConfigurationError, match=r"agent\.precision is 'bfloat16'"):
        make_learner(ALONE, precision="bfloat16")
    cfg = FastSacCfg()  # batches of 256, 10 steps to warm up
    with pytest.raises(ConfigurationError, match=r"batch_size is 256, which 3 .* such as 258"):
        cfg.batch_of(3)
    small = merge(cfg, {"replay": {"size": 200}, "algorithm": {"batch_size": 512}}, "agent")
    words = r"batch_size is 512, 256 of each process, .*size is 200.* to 256 or more"
    with pytest.raises(ConfigurationError, match=words):
        small.first_update(16, 2)
    assert [cfg.first_update(num_envs, 1) for num_envs in (64, 16, 15)] == [11, 16, 18]


WORDS = [
    *("--task=Isaac-Cartpole-v0", "--headless", "--device=cpu", "--num_envs=16"),
    *("agent.save_interval=2", "agent.keep_checkpoints=0", "agent.num_steps_per_env=8"),
    *("agent.warmup_steps=3", "agent.replay.size=320", "agent.algorithm.batch_size=32"),
    *("agent.algorithm.n_step=3", "agent.algorithm.updates_per_step=2"),
    *("agent.critic.num_atoms=11", "agent.init_at_random_ep_len=true"),
    *("agent.actor.hidden_dims=[16]", "agent.critic.hidden_dims=[16]", "env.episode_length_s=0.2"),
]
"""Episodes of 12 steps, so that some end by time, and a memory that is soon full."""


@pytest.fixture(scope="module", params=["sac", pytest.param("td3", marks=pytest.mark.long)])
def words(request: pytest.FixtureRequest) -> list[str]:
    return [*WORDS, f"agent.algorithm.name={request.param}"]


@pytest.fixture(scope="module")
def trained(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    assert train_in("fast_sac", folder, *words, "--max_iterations=4") == 0
    return only_run(folder)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("pair")
    command = torchrun(2, Path(__file__).with_name("worker_pair.py"), folder)
    return launch_pair(folder, command, ["sac"])


@pytest.fixture(scope="module")
def single_update() -> dict[str, Any]:
    return {"gradients": on_one_thread(updates.first_gradients)}


class TestFastSac(LearnerContract):
    MAIN = "sac"
    STATE = {"sac": ["actor.body", "critics.layers", "log_temperature", "target", "scalers.obs"]}
    AVERAGED = ["pooled"]
    TOLERANCE = 1e-9  # in float64


def test_a_resumed_run_ends_bit_identical(words: list[str], trained: Path, tmp_path: Path):
    """Of two ranks, so does that of ``tests/golden/test_old_runs.py``."""
    more = ["--max_iterations=4", "--resume", f"--checkpoint={trained}/checkpoints/model_2.pt"]
    assert train_in("fast_sac", tmp_path, *words, *more) == 0
    check_same_end(only_run(tmp_path), trained, resumed_at=2, iteration=4)


def test_without_its_replay_memory_a_checkpoint_is_small_and_a_resume_reports_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = [*WORDS, "agent.replay.is_saved=false"]
    assert train_in("fast_sac", tmp_path, *words, "--max_iterations=2") == 0
    small = checkpoint_of(only_run(tmp_path), 2)
    assert small["ranks"][0]["learner"]["replay"] is None
    assert train_in("fast_sac", tmp_path, *words, "--max_iterations=3", "--resume") == 0
    assert "The checkpoint holds no replay memory" in capsys.readouterr().err


def test_the_last_observation_of_an_ended_episode_is_stored():
    learner = make_learner(ALONE)
    env = learner.env
    env.episode_length_buf = torch.arange(NUM_ENVS) % 2 * (env.max_episode_length - 1)
    final: dict[str, torch.Tensor] = {}

    def look(rewards: torch.Tensor, ended: torch.Tensor, info: Any) -> None:
        final.update(ended=ended.clone(), obs=info["final_obs"]["policy"].clone())

    learner.replay.add(*learner.collector.step(look))
    stored = learner.replay.tensors["next_obs"][:NUM_ENVS]
    ended = final["ended"]
    assert ended.tolist() == [False, True] * (NUM_ENVS // 2)
    assert torch.equal(stored[ended], final["obs"][ended])
    assert not torch.isclose(stored[ended], env.obs_buf["policy"][ended]).all(dim=1).any()
    assert torch.equal(stored[~ended], env.obs_buf["policy"][~ended])
    outcomes = learner.replay.tensors["outcomes"][:NUM_ENVS]
    assert outcomes[:, 1].sum() == 0.0  # no episode has failed
    assert outcomes[:, 2].bool().tolist() == ended.tolist()


def test_target_critics_follow_by_tau():
    learner = make_learner(ALONE)
    before = [values.clone() for values in learner.target.parameters()]
    learner.iterate(1, lambda *_: None)
    assert learner.num_updates == 2 * 2
    learner = make_learner(ALONE, algorithm=SMALL["algorithm"] | {"tau": 1.0})
    learner.iterate(1, lambda *_: None)
    for target, critic, old in zip(
        learner.target.parameters(), learner.bare_critics.parameters(), before, strict=True
    ):
        assert torch.equal(target, critic)
        assert old.dim() == 0 or not torch.equal(target, old)


@pytest.mark.parametrize(("name", "entropy"), [("sac", 1.0), ("td3", 0.0)])
def test_critics_learn_the_next_states_value_with_its_entropy(name: str, entropy: float):
    """Scalar critics, whose target is reward + discount * (lesser value - cost of entropy)."""
    learner = make_learner(
        ALONE,
        torch.float64,
        algorithm=SMALL["algorithm"] | {"name": name, "target_noise_std": 0.0},
        critic={"hidden_dims": [16], "distributional": False},
    )
    batch, asked = batch_of(ALONE), {}

    def look(judged: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        asked["target"] = target
        return judged.sum()

    torch.manual_seed(3)
    with torch.no_grad():
        actions, log_probs = learner.bare_actor(batch.next_obs)
        values = learner.target.judge(batch.next_critic_obs, actions).squeeze(2).amin(dim=0)
    costs = entropy * learner.bare_critics.log_temperature.detach().exp() * log_probs
    torch.manual_seed(3)
    with mock.patch("envlab.fast_sac.learner.critic_loss", look):
        learner.update(batch)
    expected = batch.rewards + batch.discounts * (values - costs)
    torch.testing.assert_close(asked["target"], expected)


def test_scalers_know_the_samples_of_all_ranks(pair: Pair):
    ends = pair.ends["sac"]
    seen = torch.cat([end["obs"][0] for end in ends]).double()
    state = ends[0]["model"]["scalers"]["obs"]
    assert float(state["count"]) == len(seen) == 4 * NUM_ENVS
    torch.testing.assert_close(state["running_mean"], seen.mean(dim=0))
    torch.testing.assert_close(state["running_var"], seen.var(dim=0, unbiased=False))


def test_scalers_of_version_0_1_0_are_loaded():
    learner, other = make_learner(ALONE), make_learner(ALONE)
    for scaler in (learner.scalers["obs"], learner.reward_scaler):
        scaler.add(torch.arange(8.0).reshape(-1, len(scaler.running_mean)))
    state = learner.model_state()
    for name, values in state["scalers"].items():
        old = dict(values)
        old["mean"] = old.pop("running_mean")
        old["squares"] = old.pop("running_var") * old["count"]
        state["scalers"][name] = old
    other.load_models({"model": state})
    for mine, theirs in zip(
        learner.all_scalers().values(), other.all_scalers().values(), strict=True
    ):
        torch.testing.assert_close(theirs.state_dict(), mine.state_dict())


def test_hidden_layers_can_be_computed_in_bfloat16(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("envlab.precision.has_bfloat16", lambda device: True)
    wide = {"actor": {"hidden_dims": [64]}, "critic": {"hidden_dims": [64], "num_atoms": 11}}
    full, half = (make_learner(ALONE, precision=name, **wide) for name in ("float32", "bfloat16"))
    batch = Batch(*(values.float() for values in batch_of(ALONE)))
    answers = [
        (one.bare_actor.best(batch.obs), one.target.judge(batch.obs, batch.actions))
        for one in (full, half)
    ]
    for first, second in zip(*answers, strict=True):
        assert second.dtype == torch.float32
        assert not torch.equal(first, second)
        torch.testing.assert_close(first, second, rtol=0.05, atol=0.02)
    half.update(batch)
    parameters = [*half.bare_actor.parameters(), *half.bare_critics.parameters()]
    assert {parameter.dtype for parameter in parameters} == {torch.float32}
    assert all(parameter.isfinite().all() for parameter in parameters)


def test_a_resumed_critic_has_the_range_that_is_configured():
    """As the warning advises that returns lie beyond it."""
    learner = make_learner(ALONE)
    wider = make_learner(ALONE, critic=SMALL["critic"] | {"v_max": 12.0})
    wider.load_models({"model": learner.model_state()})
    for critics in (wider.bare_critics, wider.target):
        assert critics.atoms.max().item() == 12.0


def test_returns_beyond_the_critics_range_are_warned_of_once(caplog: pytest.LogCaptureFixture):
    learner = make_learner(ALONE)
    reach = learner.cfg.critic.v_max
    learner.warn_beyond_v_max({"return_min": -reach, "return_max": reach})
    assert not caplog.text
    for _ in range(2):
        learner.warn_beyond_v_max({"return_min": -3.0, "return_max": 7.5})
    assert caplog.text.count("Returns reach from -3.0 to 7.5") == 1
    assert "agent.critic.v_max is 5.0" in caplog.text
    assert "Set it to 9." in caplog.text
