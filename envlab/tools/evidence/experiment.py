"""An experiment: its claim, its contenders, and the record of each run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from envlab.config import NonNegativeInt, PositiveFloat, PositiveInt, load_yaml, merge
from envlab.errors import ConfigurationError, did_you_mean

FOLDER = Path("scripts/evidence")
"""Folder of experiments in a checkout, one ``NAME.yaml`` each."""
RECORDS = Path("docs/evidence")
"""Folder of the records of finished runs, ``NAME/CONTENDER/SEED/``."""
PLAYED = "played.json"
"""In a record: the output of ``envlab play --json``."""
LEVEL = 0.05
"""Largest probability that an experiment has any verdict if nothing differs."""
LEAST_SEEDS = 5
"""Runs of a contender below which there is no verdict."""


@dataclass(kw_only=True)
class Contender:
    """A way to train."""

    name: str
    """Its name in tables, folders and pictures."""
    words: str
    """Arguments of ``envlab train``, without the budget, the seed and ``--task``; ``lab``, and the
    specification's file, name and ``-s KEY=VALUE``, as of ``envlab lab run``; or a peer's program
    and its own arguments, see :meth:`program`. ``{here}`` is the experiments' folder."""
    play: str = ""
    """Further arguments of ``envlab play``: overrides that networks depend on, and another
    ``--task`` than the trained one. Not for a peer's program."""

    def program(self) -> str | None:
        """Return the Python file of a peer's program, next to the experiment's file.

        It is called with ``--task``, ``--seed``, ``--max_frames`` and ``--num_episodes``, and
        writes ``logs/*/*/*/{run.json,metrics.jsonl}`` and :data:`PLAYED`, like envlab.
        """
        first = shlex.split(self.words)[0]
        return first if first.endswith(".py") else None


@dataclass(kw_only=True)
class Experiment:
    """The content of a file in :data:`FOLDER`; its name is the file's."""

    name: str = ""
    claim: str
    """One sentence, which the measurement supports or refutes."""
    task: str
    """The task that all contenders train."""
    frames: PositiveInt
    """Environment frames of each run, of all its processes."""
    seeds: PositiveInt = 5
    """Runs of each contender: seeds from 0."""
    first_seeds: NonNegativeInt = 0
    """Runs of each contender at the first look at their values, if more were added afterwards; 0:
    no seed was added. The page states this, and both looks share the test's level."""
    minutes: PositiveFloat
    """Duration of the longest run on its cores; measured."""
    cores: PositiveInt = 1
    """Number of the processor's cores for each run."""
    metric: str = "mean_return"
    """Metric of ``metrics.jsonl``: drawn, and its last tenth compared."""
    episodes: NonNegativeInt = 0
    """Number of episodes to play with the last policy, as ``envlab play`` does, in states that
    training never drew; their :attr:`measure` is compared instead of the metric. 0: none."""
    measure: str = "return"
    """Compared value of :data:`PLAYED`, such as ``measures.all.success``."""
    expect: Literal["better", "equal"] = "better"
    """Whether the first contender is claimed to be better than each other one, or equal."""
    contenders: list[Contender] = field(default_factory=list)

    def runs(self) -> Iterator[tuple[Contender, int]]:
        """Yield contenders and seeds: all contenders with one seed before the next seed."""
        for seed in range(self.seeds):
            for contender in self.contenders:
                yield contender, seed

    def measured(self, played: Mapping[str, Any]) -> float:
        """Return the compared value of the content of :data:`PLAYED`.

        Raises:
            ConfigurationError: If it does not exist.
        """
        found: Any = played
        for name in self.measure.split("."):
            if not isinstance(found, Mapping) or name not in found:
                has = ", ".join(found) if isinstance(found, Mapping) else repr(found)
                raise ConfigurationError(
                    f"The experiment {self.name!r} compares {self.measure!r} of played episodes, "
                    f"but in place of {name!r} there is only: {has}. Correct its 'measure'."
                )
            found = found[name]
        value = found[0] if isinstance(found, list) and found else found  # a mean, its interval
        if not isinstance(value, int | float):
            raise ConfigurationError(
                f"The experiment {self.name!r} compares {self.measure!r} of played episodes, which "
                f"is {found!r}, but must be a number. Correct its 'measure'."
            )
        return float(value)

    def level(self) -> float:
        """Return the level of the experiment's test, which two looks at its values share."""
        return LEVEL / 2.0 if self.first_seeds else LEVEL

    def record(self, contender: Contender, seed: int, records: Path = RECORDS) -> Path:
        """Return the folder of a run's record."""
        return records / self.name / contender.name / str(seed)


def names(folder: Path = FOLDER) -> list[str]:
    """Return the names of all experiments.

    Raises:
        ConfigurationError: If there is no such folder.
    """
    found = sorted(path.stem for path in folder.glob("*.yaml"))
    if not found:
        raise ConfigurationError(
            f"There are no experiments in {str(folder)!r}. Call 'envlab evidence' in a checkout of "
            "envlab, or give --folder."
        )
    return found


def read(name: str, folder: Path = FOLDER) -> Experiment:
    """Read an experiment.

    Raises:
        ConfigurationError: If there is none of that name, or the file is not valid.
    """
    known = names(folder)
    if name not in known:
        raise ConfigurationError(
            f"There is no experiment {name!r}.{did_you_mean(name, known)} There are "
            f"{', '.join(known)}."
        )
    blank = Experiment(claim="", task="", frames=1, minutes=1.0)
    experiment = merge(blank, {"name": name, **load_yaml(folder / f"{name}.yaml")}, name)
    labels = [contender.name for contender in experiment.contenders]
    if not experiment.claim or not experiment.task or len(set(labels)) < max(2, len(labels)):
        raise ConfigurationError(
            f"The experiment {name!r} needs a claim, a task, and two contenders or more of "
            f"different names; it has {labels}."
        )
    if experiment.first_seeds >= experiment.seeds:
        raise ConfigurationError(
            f"The experiment {name!r} has 'first_seeds' of {experiment.first_seeds}, but that must "
            f"be fewer than 'seeds', {experiment.seeds}. Correct one of them."
        )
    if not experiment.episodes and experiment.measure != blank.measure:
        raise ConfigurationError(
            f"The experiment {name!r} has the measure {experiment.measure!r} of played episodes, "
            "but plays none. Set 'episodes', or leave 'measure' out."
        )
    for contender in experiment.contenders:
        if contender.play and (contender.program() or not experiment.episodes):
            raise ConfigurationError(
                f"The experiment {name!r} has 'play' for {contender.name!r}, which has no effect "
                "on a peer's program, nor without 'episodes'. Leave it out."
            )
        if (program := contender.program()) and not (folder / program).is_file():
            raise ConfigurationError(
                f"The experiment {name!r} has the program {program!r} of {contender.name!r}, but "
                f"there is no {str(folder / program)!r}. Name a Python file in the experiment's "
                "folder."
            )
    return experiment
