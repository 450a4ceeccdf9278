"""Files that need AllenAct's own packages: stand-ins and missing packages.

``test_peer_files.py`` trains with the packages themselves.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from envlab.errors import ConfigurationError
from envlab_navigation.ddppo import experiment_file
from envlab_navigation.ddppo.allenact import gym_stand_in, packages
from envlab_navigation.ddppo.allenact.expert import ObservedExpert
from envlab_navigation.ddppo.experiment_file import load_experiment
from tests.launcher import ROOT
from tests.refusals import check_refusals

PEERS = ("allenact", "allenact_plugins", "gym", "gym_minigrid", "babyai", "torchvision", "projects")
STAND_INS = ("moviepy", "wandb", "blosc", "pickle5")
OURS = "envlab_navigation.ddppo.allenact."

SMALL = ("--allenact", "--headless", "--device=cpu", "env.num_workers=0", "--seed=1")


def _forget(names: set[str]) -> None:
    tops = (*PEERS, *STAND_INS)
    for name in names:
        if name.partition(".")[0] in tops or name.startswith(OURS):
            sys.modules.pop(name, None)
    experiment_file.load_cached.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def clean() -> Iterator[None]:
    """Leave no module behind that replaces another, nor one that imported these."""
    before, path = dict(sys.modules), list(sys.path)
    yield
    _forget(set(sys.modules) - set(before))
    sys.modules.update({name: before[name] for name in before if name not in sys.modules})
    sys.path[:] = path


def write(folder: Path, text: str, name: str = "peer_experiment.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_seeds_are_gyms_and_heirs_of_environments_gymnasiums() -> None:
    """1337's SHA-512 begins with these two words of 32 bits."""
    generator, seed = gym_stand_in.np_random(1337)
    expected = np.random.RandomState([1606814319, 1720193504])
    assert seed == 1337
    assert generator.randint(0, 2**31 - 1) == expected.randint(0, 2**31 - 1)
    assert {heir for heir, _ in gym_stand_in.HEIRS.values()} <= set(gymnasium.registry)


def test_environments_have_gyms_methods_and_leave_time_limits_to_the_task() -> None:
    env = gym_stand_in.make("Pendulum-v1")
    env.seed(3)
    first = env.reset()
    assert env.spec.max_episode_steps == 200
    ends = [env.step(np.zeros(1, np.float32))[2] for _ in range(210)]
    assert not any(ends)
    env.seed(3)
    assert np.array_equal(env.reset(), first)


def test_houses_are_for_files_and_their_bases_that_need_no_more(tmp_path: Path) -> None:
    for line, expected in (
        ("from allenact.algorithms.onpolicy_sync.losses import PPO", False),
        ("from allenact.algorithms.onpolicy_sync.losses import A2C", True),
        ("from allenact_plugins.gym_plugin import gym_tasks", True),
        ("import gym", True),
        ("import math", False),
    ):
        assert packages.needs_packages(Path(write(tmp_path, line))) is expected
    path = Path(write(tmp_path, "import math\nfrom base import Base\n"))
    write(tmp_path, "import peer_experiment\nfrom more.bases import Base\n", "base.py")
    assert not packages.needs_packages(path)
    (tmp_path / "more").mkdir()
    write(tmp_path, "import gym", "more/bases.py")
    assert packages.needs_packages(path)


def test_what_is_missing_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BabyAI's default branch installs without ``babyai.rl``, and cannot be imported."""
    commit = "babyai.git@0b450eeb3a2dc7116c67900d51391986bdbb84cd"
    assert commit in (ROOT / "docs/from_allenact.md").read_text()
    check_refusals(
        lambda name: packages.refuse_missing(tmp_path / "mine.py", name),
        [
            ("babyai.rl", re.escape(commit)),
            ("ai2thor.controller", r"mine\.py needs AI2-THOR .* of Unity .* own|houses"),
        ],
    )
    monkeypatch.delitem(sys.modules, "allenact", raising=False)
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    text = "from allenact.algorithms.onpolicy_sync.losses import A2C"
    with pytest.raises(ConfigurationError, match=r"peer_experiment.py needs AllenAct: run a file"):
        load_experiment(write(tmp_path, text), allenact=True)


def test_minigrid_needs_babyai_only_for_words(tmp_path: Path, monkeypatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "babyai"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(packages, "is_missing", lambda name: name == "babyai")
    monkeypatch.setattr(packages, "complete_torchvision", lambda: None)
    monkeypatch.setitem(sys.modules, "allenact", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "allenact.utils.system", SimpleNamespace())
    packages.prepare_packages(tmp_path / "mine.py")
    words = importlib.import_module("babyai.utils.format")
    with pytest.raises(ConfigurationError, match=r"words of missions need BabyAI: pip install"):
        words.InstructionsPreprocessor("vocabulary", load_vocab_from="here")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("babyai.bot")
    _forget({"babyai", "babyai.utils", "babyai.utils.format"})


def test_experts_without_advice_are_reported() -> None:
    seen = torch.tensor([[1, 1], [0, 0]])
    env: Any = SimpleNamespace(obs_buf={"expert_action": seen}, actions=torch.zeros(2, 1).long())
    assert ObservedExpert(env).act().tolist() == [[1], [-1]]
