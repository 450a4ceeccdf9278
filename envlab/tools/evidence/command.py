"""``envlab evidence``: run experiments over seeds, and write the page of their results."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from envlab.arguments import ArgumentParser
from envlab.errors import ConfigurationError
from envlab.interrupts import ending_in_order
from envlab.run.compare.picture import draw, write
from envlab.run.compare.statistics import bootstrap_interval, interquartile_mean
from envlab.tools.evidence.experiment import FOLDER, RECORDS, Contender, Experiment, names, read
from envlab.tools.evidence.runner import check_seeds, own_cores, remaining, run
from envlab.tools.evidence.verdict import Side, comparisons, physics_of, sides_of, without_a_chance

PAGE = Path("docs/evidence.md")
PICTURES = Path("docs/images/evidence")
HEAD = """# Evidence

<!-- Written by 'envlab evidence page' from the records in docs/evidence: run that instead. -->

Claims about learning, checked by experiments over seeds. Each is a file in `scripts/evidence/`;
its name here is what you repeat it by:

    envlab evidence run NAME

`envlab evidence page` makes this page from the records in `docs/evidence/` alone. Values are
interquartile means over seeds with bootstrap intervals that aim at 95 % (Agarwal et al., 2021), and
cover about 90 % with five seeds, less with fewer.

A verdict (better, worse, higher, lower) is that of an exact permutation test: how often a division
of all runs into two groups by chance has one of them win as many pairs of runs, in either
direction. Its p accounts for all comparisons of an experiment (Holm, 1979), so that an experiment
in which nothing differs has a verdict in at most 5 % of cases. There is none from fewer than five
seeds. Contenders that are not distinguished may still differ by as much as the interval shows.
Where seeds were added after a look, the section states it, and both looks share the 5 %.

Episodes are played by `envlab play` after the training, without exploration, except that DD-PPO
draws its actions. Minutes are of cores and GPUs that did other work, and no measure of speed.

| experiment | found |
|---|---|
"""


def page(experiments: Sequence[Experiment], records: Path = RECORDS) -> str:
    """Return the page."""
    all_sides = [sides_of(experiment, records) for experiment in experiments]
    pairs = list(zip(experiments, all_sides, strict=True))
    rows = "".join(_summary(experiment, sides) for experiment, sides in pairs)
    sections = [
        section(experiment, sides, [pair for pair in pairs if pair[0] is not experiment])
        for experiment, sides in pairs
    ]
    return "\n".join([HEAD + rows, *sections])


def draw_pictures(
    experiments: Sequence[Experiment], records: Path = RECORDS, folder: Path = PICTURES
) -> list[Path]:
    """Draw each experiment that has records; return the pictures' paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for experiment in experiments:
        groups = [side.group for side in sides_of(experiment, records)]
        if groups:
            paths.append(folder / f"{experiment.name}.png")
            write(draw(groups, experiment.metric, experiment.task), paths[-1])
    return paths


def section(
    experiment: Experiment,
    sides: Sequence[Side],
    others: Sequence[tuple[Experiment, Sequence[Side]]] = (),
) -> str:
    """Return an experiment's part of the page.

    Args:
        experiment: The experiment.
        sides: Its contenders' records.
        others: The other experiments and theirs, some of which may have more seeds of the same.
    """
    heading = f"## {experiment.name}\n\n{experiment.claim}\n"
    facts = f"`{experiment.task}`, {experiment.frames:,} frames each"
    if not sides:
        return f"{heading}\n{facts}. **Not run yet.**\n"
    facts += f", physics by {physics_of(experiment, sides)}; {_origin(sides)}."
    measured = (
        f"mean {experiment.measure.rpartition('.')[2]} over {experiment.episodes} played episodes"
        f"{_place(sides)}"
        if experiment.episodes
        else f"`{experiment.metric}`, the mean of the last tenth"
    )
    rows = [f"| contender | seeds | {measured} | minutes | command |", "|---|---|---|---|---|"]
    rows += [_row(experiment, side, _processors(sides)) for side in sides]
    verdicts = [f"- {one.sentence}" for one in comparisons(experiment, sides)]
    verdicts += without_a_chance(experiment, sides, len(verdicts))
    verdicts += [f"- {more}" for side in sides for more in _more_seeds(experiment, side, others)]
    picture = f"![{experiment.name}](images/evidence/{experiment.name}.png)\n"
    text = "\n".join([*rows, "", *verdicts]) + "\n"
    looks = f"{_looks(experiment)}\n" if experiment.first_seeds else ""
    return f"{heading}\n{facts}\n{looks}\n{text}\n{picture}"


def _more_seeds(
    experiment: Experiment, side: Side, others: Sequence[tuple[Experiment, Sequence[Side]]]
) -> Iterator[str]:
    """Yield where a contender has more seeds, as another experiment's."""
    same = (experiment.task, experiment.frames, side.contender.words)
    for other, theirs in others:
        for found in theirs:
            is_same = (other.task, other.frames, found.contender.words) == same
            if is_same and len(found.final) > len(side.final):
                yield (
                    f"{side.contender.name}, by the same command over {len(found.final)} seeds "
                    f"([{other.name}](#{other.name})): {_middle(found.final)}."
                )


def _looks(experiment: Experiment) -> str:
    """Return the sentence on seeds that were added after a look."""
    return (
        f"The first {experiment.first_seeds} seeds were examined before the others were added, so "
        f"a verdict needs p of {experiment.level():g} or less."
    )


def _summary(experiment: Experiment, sides: Sequence[Side]) -> str:
    """Return an experiment's row of the table of all."""
    found = ["not run yet"]
    if sides and len(sides) < len(experiment.contenders):
        found = ["not finished"]
    elif sides:
        by_word: dict[tuple[str, str], list[str]] = {}
        for one in comparisons(experiment, sides):
            by_word.setdefault((one.first, one.word), []).append(one.other)
        found = [f"{first}: {word} {', '.join(names)}" for (first, word), names in by_word.items()]
    link = f"[{experiment.name}](#{experiment.name})"
    return f"| {link} | {'; '.join(found)} |\n"


def command_of(contender: Contender) -> str:
    """Return a contender's command in a checkout, without what the experiment adds."""
    words = contender.words.replace("{here}/../../", "").replace("{here}", str(FOLDER))
    if contender.program():
        return f"python {FOLDER}/{words}"
    if words.startswith("lab "):
        return f"envlab lab run {words.removeprefix('lab ')}"
    return f"envlab train {words}"


def _row(experiment: Experiment, side: Side, processors: Sequence[str]) -> str:
    final = side.final
    each = ", ".join(f"{value:.4g}" for value in final)
    minutes = f"{np.median([run.wall_s[-1] for run in side.group.runs]) / 60.0:.1f}"
    if len(processors) > 1:
        minutes += f" ({', '.join(_processors([side]))})"
    seeds = f"{len(final)}" + f" of {experiment.seeds}" * (len(final) < experiment.seeds)
    words = f"`{command_of(side.contender)}`"
    if side.contender.play:
        words += f", played with `{side.contender.play}`"
    return f"| {side.contender.name} | {seeds} | {_middle(final)}: {each} | {minutes} | {words} |"


def _middle(values: np.ndarray) -> str:
    """Return the interquartile mean of runs and its interval."""
    text = f"{float(interquartile_mean(values)):.4g}"
    if len(values) == 1:
        return text
    low, high = bootstrap_interval(values)
    return f"{text} ({float(low):.4g} to {float(high):.4g})"


def _place(sides: Sequence[Side]) -> str:
    """Return where the episodes were played, if that is known."""
    found = {place for side in sides for place in side.places}
    return f" in {', '.join(sorted(found))}" if found else ""


def _origin(sides: Sequence[Side]) -> str:
    """Return the origin of the runs: code, day and processor."""
    manifests: list[dict[str, Any]] = [run.manifest for side in sides for run in side.group.runs]
    states = [found["git"] for found in manifests if found.get("git")]  # a peer's has none
    commits = sorted({state["commit"][:7] for state in states})
    days = sorted({str(found.get("created_at"))[:10] for found in manifests})
    return f"commit {', '.join(commits)}, {', '.join(days)}, {', '.join(_processors(sides))}"


def _processors(sides: Sequence[Side]) -> list[str]:
    """Return the processors and GPUs of contenders' runs."""
    runs = [run for side in sides for run in side.group.runs]
    return sorted({str(run.manifest.get("processor")) for run in runs})


LOGS = Path("logs/evidence")


def main(arguments: Sequence[str]) -> int:
    """Run the command of the first word, and return 0.

    Raises:
        EnvlabError: If there is no such experiment, or a run of it fails.
    """
    flags = _parse(arguments)
    if flags.verb == "run":
        experiment = read(flags.name or "", flags.folder)
        check_seeds(experiment, flags.records)
        seeds = experiment.seeds if flags.seeds is None else flags.seeds
        frames = experiment.frames if flags.frames is None else int(flags.frames)
        for name, value in (("seeds", seeds), ("frames", frames)):
            if value < 1:
                raise ConfigurationError(f"--{name} is {value}, but must be 1 or more.")
        if seeds > experiment.seeds:
            raise ConfigurationError(
                f"--seeds is {seeds}, but {experiment.name!r} has {experiment.seeds}. Raise "
                "'seeds' in its file instead, with 'first_seeds' if it has records."
            )
        _run(replace(experiment, frames=frames), seeds, flags)
        return 0
    experiments = [read(name, flags.folder) for name in names(flags.folder)]
    if flags.verb == "list":
        for experiment in experiments:
            total = experiment.seeds * len(experiment.contenders)
            done = total - len(remaining(experiment, flags.records))
            print(f"{experiment.name}: {done} of {total} runs have a record")
            print(f"    {experiment.claim}")
        return 0
    PAGE.write_text(page(experiments, flags.records))
    pictures = draw_pictures(experiments, flags.records, PICTURES)
    print(f"Wrote {PAGE} and {len(pictures)} pictures.")
    return 0


def _run(experiment: Experiment, seeds: int, flags: argparse.Namespace) -> None:
    """Make the runs of the first seeds that have no record yet."""
    runs = [run for run in remaining(experiment, flags.records) if run[1] < seeds]
    hours = len(runs) * experiment.minutes / 60.0
    print(f"{experiment.name}: runs to make: {len(runs)}, about {hours:.1f} h in all.")
    places = {"programs": flags.folder, "logs": flags.logs, "records": flags.records}
    with ending_in_order(), own_cores(flags.core, experiment.cores):
        for number, (contender, seed) in enumerate(runs, start=1):
            print(f"{number} of {len(runs)}: {contender.name}, seed {seed}", flush=True)
            run(experiment, contender, seed, **places)
    print(f"All runs of {experiment.name} have a record. The page: envlab evidence page")


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = ArgumentParser(
        prog="envlab evidence", description="Experiments over seeds, and the page of all of them."
    )
    parser.add_argument("verb", choices=("list", "run", "page"), help="what to do")
    parser.add_argument("name", nargs="?", help="the experiment to run")
    parser.add_argument("--seeds", type=int, help="runs of each contender (default: the file's)")
    parser.add_argument("--frames", type=float, help="of each run (default: the file's)")
    parser.add_argument("--core", type=int, help="first core of a run (default: the last ones)")
    for name, default, help_text in (
        ("folder", FOLDER, "of experiments"),
        ("records", RECORDS, "of records"),
        ("logs", LOGS, "of runs"),
    ):
        parser.add_argument(
            f"--{name}", type=Path, default=default, help=f"{help_text} (default: {default})"
        )
    return parser.parse_args(list(arguments))
