"""The page of all experiments, made only from their records."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from envlab.run.compare.groups import Group
from envlab.run.compare.picture import draw, write
from envlab.run.compare.results import find_results
from envlab.run.compare.statistics import (
    bootstrap_interval,
    difference_interval,
    improvement_interval,
    interquartile_mean,
)
from envlab.tools.evidence.experiment import (
    FOLDER,
    PLAYED,
    RECORDS,
    Contender,
    Experiment,
)
from envlab.tools.evidence.runner import NUM_POINTS

PAGE = Path("docs/evidence.md")
PICTURES = Path("docs/images/evidence")
NUM_LAST = NUM_POINTS // 10
"""Last points of a recorded curve, a tenth of a long one; their mean is compared if nothing is
played."""
HEAD = """# Evidence

<!-- Written by 'envlab evidence page' from the records in docs/evidence: run that instead. -->

Claims about learning, checked by experiments over seeds. Each is a file in
`scripts/evidence/`, run by

    envlab evidence run NAME

and this page is made of the records in `docs/evidence/` alone, by `envlab evidence page`. Values
are interquartile means over seeds with bootstrap intervals that aim at 95 % (Agarwal et al., 2021),
as those of [`envlab compare`](compare.md), and cover about 90 % with five seeds, less with fewer.
"Better" is the probability that a run of one beats a run of the other, likewise with its interval.
An interval that contains 0.5, or 0 for a difference, leaves the claim undecided: contenders that
are not told apart may still differ by as much as the interval says. Episodes are played by
`envlab play` after the training, without exploration; only DD-PPO draws its actions there, too.
Minutes are of cores and GPUs that did other work, too, and no measure
of speed. What a peer's program needs
is said at the top of its file in `scripts/evidence/`.

| experiment | claim | what was found |
|---|---|---|
"""


@dataclass(kw_only=True)
class Side:
    """Contents of a contender's records."""

    contender: Contender
    group: Group
    final: np.ndarray
    """The compared value of each run: that of played episodes, or of the metric's last tenth."""
    places: set[str]
    """Where episodes were played, as far as their records say."""


def page(experiments: Sequence[Experiment], records: Path = RECORDS) -> str:
    """Return the page."""
    all_sides = [sides_of(experiment, records) for experiment in experiments]
    pairs = list(zip(experiments, all_sides, strict=True))
    rows = "".join(_summary(experiment, sides) for experiment, sides in pairs)
    sections = [section(experiment, sides) for experiment, sides in pairs]
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


def sides_of(experiment: Experiment, records: Path) -> list[Side]:
    """Read the records of an experiment; contenders without any are left out."""
    sides = []
    for contender in experiment.contenders:
        folder = records / experiment.name / contender.name
        if next(folder.glob("*/run.json"), None) is None:
            continue
        runs = find_results([str(folder)], experiment.metric)
        runs.sort(key=lambda run: int(run.manifest["seed"]))
        played = []
        if experiment.episodes:
            played = [json.loads((run.directory / PLAYED).read_text()) for run in runs]
            final = np.array([experiment.measured(values) for values in played])
        else:
            final = np.array([run.values[run.has_value][-NUM_LAST:].mean() for run in runs])
        group = Group(label=contender.name, keys={}, runs=runs)
        places = {values["place"] for values in played if "place" in values}
        sides.append(Side(contender=contender, group=group, final=final, places=places))
    return sides


def section(experiment: Experiment, sides: Sequence[Side]) -> str:
    """Return an experiment's part of the page."""
    heading = f"## {experiment.name}\n\n{experiment.claim}\n"
    facts = f"`{experiment.task}`, {experiment.frames:,} frames each"
    command = f"    envlab evidence run {experiment.name}\n"
    if not sides:
        return f"{heading}\n{facts}. **Not run yet.**\n\n{command}"
    measured = (
        f"mean {experiment.measure.rpartition('.')[2]} over {experiment.episodes} played episodes"
        f"{_place(sides)}"
        if experiment.episodes
        else f"`{experiment.metric}`, the mean of the last tenth"
    )
    rows = [f"| contender | seeds | {measured} | minutes | command |", "|---|---|---|---|---|"]
    rows += [_row(experiment, side, _processors(sides)) for side in sides]
    verdicts = [f"- {verdict(experiment, *pair)[1]}" for pair in itertools.combinations(sides, 2)]
    picture = f"![{experiment.name}](images/evidence/{experiment.name}.png)\n"
    text = "\n".join([*rows, "", *verdicts]) + "\n"
    return f"{heading}\n{facts}; {_origin(sides)}.\n\n{text}\n{picture}\n{command}"


def verdict(experiment: Experiment, first: Side, other: Side) -> tuple[str, str]:
    """Return what the records say of two contenders: in two words, and as a sentence."""
    names = f"{first.contender.name} against {other.contender.name}"
    if min(len(first.final), len(other.final)) < 2:
        return "one seed of", f"{names}: one seed, which decides nothing."
    if experiment.expect == "equal":
        low, high = difference_interval(first.final, other.final)
        is_held = low <= 0.0 <= high
        word = "not told apart from" if is_held else "higher than" if low > 0.0 else "lower than"
        holds = "contains 0" if is_held else "does **not** contain 0"
        return word, f"{names}: the interval of the difference, {low:.3g} to {high:.3g}, {holds}."
    share, low, high = improvement_interval(first.final, other.final)
    word = "better than" if low > 0.5 else "worse than" if high < 0.5 else "undecided against"
    bold = f"**{word.split()[0]}**"
    return word, f"{names}: better with probability {share:.2f} ({low:.2f} to {high:.2f}), {bold}."


def _summary(experiment: Experiment, sides: Sequence[Side]) -> str:
    """Return an experiment's row of the table of all."""
    found = ["not run yet"]
    if sides and len(sides) < len(experiment.contenders):
        found = ["not finished"]
    elif sides:
        first, *others = sides
        by_word: dict[str, list[str]] = {}
        for other in others:
            word = verdict(experiment, first, other)[0]
            by_word.setdefault(word, []).append(other.contender.name)
        found = [f"{word} {', '.join(names)}" for word, names in by_word.items()]
        found[0] = f"{first.contender.name}: {found[0]}"
    link = f"[{experiment.name}](#{experiment.name})"
    return f"| {link} | {experiment.claim} | {'; '.join(found)} |\n"


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
    text = f"{float(interquartile_mean(final)):.4g}"
    if len(final) > 1:
        low, high = bootstrap_interval(final)
        text += f" ({float(low):.4g} to {float(high):.4g})"
    each = ", ".join(f"{value:.4g}" for value in final)
    minutes = f"{np.median([run.wall_s[-1] for run in side.group.runs]) / 60.0:.1f}"
    if len(processors) > 1:
        minutes += f" ({', '.join(_processors([side]))})"
    seeds = f"{len(final)}" + f" of {experiment.seeds}" * (len(final) < experiment.seeds)
    words = f"`{command_of(side.contender)}`"
    if side.contender.play:
        words += f", played with `{side.contender.play}`"
    return f"| {side.contender.name} | {seeds} | {text}: {each} | {minutes} | {words} |"


def _place(sides: Sequence[Side]) -> str:
    """Return where the episodes were played, if that can be said."""
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
