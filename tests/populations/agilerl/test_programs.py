"""Programs that import agilerl: the names they find, and messages about the others."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from torch import nn

from envlab.errors import ConfigurationError
from envlab_populations.agilerl import environments, names
from envlab_populations.agilerl.launcher import main, results_of_select
from envlab_populations.agilerl.networks import DummyEvolvable, MakeEvolvable
from envlab_populations.agilerl.selection import create_population, single_spaces
from tests.launcher import run, torchrun
from tests.refusals import check_refusals

HERE = Path(__file__).parent
PROGRAM = ("-m", "envlab_populations.agilerl", HERE / "program.py")


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the launcher's changes to its process, and undo them afterwards."""
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    names.install()
    yield
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, names.Finder)]
    for module in [name for name in sys.modules if name.partition(".")[0] == "agilerl"]:
        del sys.modules[module]


@pytest.mark.usefixtures("_installed")
def test_all_modules_have_their_names():
    for name in (*names.NAMES, *names.RENAMED):
        exec(f"from agilerl.utils.utils import {name}", {})
    exec("from agilerl.rollouts import collect_rollouts, collect_rollouts_recurrent", {})
    for module in names.MODULES:
        exec(f"import agilerl.{module}", {})


@pytest.mark.usefixtures("_installed")
def test_a_missing_name_is_explained():
    utils = "from agilerl.utils.utils import"
    check_refusals(
        lambda line: exec(line, {}),
        [
            ("from agilerl.algorithms import IPPO", "IPPO is an algorithm which does not evolve"),
            ("from agilerl.algorithms.bc_lm import BC_LM", "bc_lm is an algorithm which tunes lan"),
            ("from agilerl.components import PrioritizedReplayBuffer", "is for Rainbow"),
            ("from agilerl.wrappers.learning import BanditEnv", "is for contextual bandits"),
            ("from agilerl.training.llm import finetune", "llm is for language models"),
            ("from agilerl.training.train import train", "train is a loop of AgileRL 0.1"),
            (f"{utils} nonsense", "stand-in for AgileRL has no nonsense"),
            ("from agilerl import LocalTrainer", "use envlab train evolution --agilerl FILE"),
            ("from agilerl.rollouts import collect_rollouts_recurrent as c; c()", "for recurrent"),
            (
                f"{utils} create_population as c; c(algo='RainbowDQN')",
                "RainbowDQN is an algorithm whose distributional",
            ),
        ],
    )


def check_in_step(output: str) -> None:
    """Require that ranks saw different states, have the same weights, and decide alike."""
    found = re.findall(r"rank (\d) weights (\[[^]]*\]) saw (\S+) (\[[^]]*\])", output)
    by_rank = [[line for line in found if line[0] == rank] for rank in "01"]
    assert [len(lines) for lines in by_rank] == [2, 2], output
    for first, second in zip(*by_rank, strict=True):  # of one agent, and of several
        assert (first[1], first[3]) == (second[1], second[3])
        assert first[2] != second[2]


@pytest.mark.long
def test_a_program_runs_on_two_processes_and_in_step(tmp_path: Path):
    code, output = run(torchrun(2, *PROGRAM, tmp_path), tmp_path)
    assert code == 0, output
    assert output.count("Acrobot-v0 no longer exists; Acrobot-v1 takes its place") == 1
    check_in_step(output)


@pytest.mark.long
@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(("name", "steps"), [("multi_frequency", 128), ("of_0_1", 120)])
def test_a_program_of_each_kind_trains(name: str, steps: int, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([str(HERE / f"peer_files/{name}.py")]) == 0
    output = capsys.readouterr().out
    assert name != "multi_frequency" or "again 32" in output  # of the elite that was saved
    found = re.search(r"^steps (\[.*\]) fitness (\[.*\])$", output, re.MULTILINE)
    assert found, output
    counts, fitness = map(ast.literal_eval, found.groups())
    assert set(counts) == {steps}
    assert len(fitness) == 2
    assert all(np.isfinite(row).all() for row in fitness)


def test_select_has_as_many_results_as_a_program_takes(tmp_path: Path):
    for text, count in (("e, pop = t.select(pop)", 2), ("_, p, _ = t.select(p)", 3), ("x = 1", 3)):
        (tmp_path / "program.py").write_text(text)
        assert results_of_select(tmp_path / "program.py") == count


def test_a_network_of_ones_own_is_read_layer_by_layer():
    network = nn.Sequential(
        nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 12), nn.Tanh(), nn.Linear(12, 2), nn.Softmax(1)
    )
    shape = MakeEvolvable(network, input_tensor=None)
    assert shape.net_config == {"hidden_size": [24, 12], "activation": "Tanh"}
    # Of four environments, as a demo gives them.
    seen, actions = spaces.Box(-1, 1, (4, 3), np.float32), spaces.MultiDiscrete([2] * 4)
    named = {"num_envs": 4, "actor_network": shape, "population_size": 2}
    pop = create_population("DQN", seen, actions, None, {"BATCH_SIZE": 8}, **named)
    assert str(pop[1].member.genes.architecture) == "24-12 tanh"
    assert (pop[0].batch_size, pop[0].action_space) == (8, spaces.Discrete(2))
    with pytest.raises(ConfigurationError, match="has LSTM"):
        DummyEvolvable(nn.LSTM, {"input_size": 3, "hidden_size": 4})


def test_dimensions_of_older_programs_become_spaces():
    old = {"state_dim": (3,), "action_dim": 2, "one_hot": False}
    seen, actions = single_spaces("td3", old | {"INIT_HP": {"MAX_ACTION": 2.0}})
    assert (seen.shape, float(actions.high[0])) == ((3,), 2.0)
    seen, actions = single_spaces("ppo", old | {"state_dim": 5, "one_hot": True})
    assert (seen, actions) == (spaces.Discrete(5), spaces.Discrete(2))
    pop = create_population("DQN", (3,), 2, False, {"h_size": [8]}, {"LR": 0.1}, None, 2)
    assert len(pop) == 2
    assert (str(pop[0].member.genes.architecture), pop[0].lr) == ("8 relu", 0.1)


def test_returns_of_episodes_in_rows():
    rewards, ends = [[1, 2, 4, 8], [1, 1, 1, 1]], [[0, 1, 0, 1], [0, 0, 0, 0]]
    scores = environments.calculate_vectorized_scores
    assert scores(rewards, ends) == [3.0]
    assert scores(rewards, ends, only_first=False) == [3.0, 12.0]
    assert scores(rewards, ends, include_unterminated=True) == [3.0, 4.0]


def test_skills_decide_rewards():
    class Half(environments.Skill):
        def skill_reward(self, observation, reward, terminated, truncated, info):
            return observation, reward / 2, terminated, truncated, info

    env = environments.make_skill_vect_envs("CartPole-v1", Half, num_envs=2)
    env.reset(seed=0)
    assert env.step(np.array([0, 1]))[1].tolist() == [0.5, 0.5]
    env.close()
    with pytest.raises(ConfigurationError, match="Gymnasium cannot make 'Nothing-v0'"):
        environments.make_vect_envs("Nothing-v0")


@pytest.fixture
def _removed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin without the stand-in, and end so."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield
    sys.modules.pop("agilerl", None)


@pytest.mark.usefixtures("_removed")
def test_agilerl_is_replaced_where_it_is_a_checkout_and_not_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "agilerl").mkdir()
    (tmp_path / "agilerl/__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match="AgileRL itself is installed in this interpreter"):
        names.install()
    monkeypatch.chdir(tmp_path)  # where "python -m" makes it importable
    names.install()
    assert importlib.import_module("agilerl").__spec__.origin is None


@pytest.mark.usefixtures("_installed")
def test_a_program_that_fails_reports_where_and_shows_all_if_asked_to(tmp_path: Path, capsys):
    assert main(["no.py"]) == 2
    assert "There is no script 'no.py'" in capsys.readouterr().err
    assert main([]) == 0
    assert "usage:" in capsys.readouterr().out
    program = tmp_path / "program.py"
    agent = "from envlab_populations.agilerl.agent import DQN;"
    for text, sentence in (
        ("import no_such_package.part", "line 2, imports no_such_package, which is neither"),
        ("{}['NET_CONFIG']", "line 2 (KeyError: 'NET_CONFIG'). Correct it"),
        ("import gymnasium; gymnasium.make('Nothing-v0')", "line 2 (NameNotFound: Environment"),
        (
            f"{agent} DQN.get_action(None, states=1)",
            "uses DQN.get_action without obs, which does not fit envlab's agents",
        ),
        (f"{agent} object.__new__(DQN).member", "uses DQN.member, which does not fit envlab's ag"),
        ("open('lesson.yaml')", "line 2 (FileNotFoundError: [Errno 2] No such file"),
    ):
        program.write_text(f'"""A program."""\n{text}\n')
        assert main([str(program)]) == 2
        written = capsys.readouterr().err
        assert sentence in written
        assert "Traceback" not in written
    program.write_text("{}['x']\n")
    with pytest.raises(KeyError):
        main(["--traceback", str(program)])
