"""``envlab lab``: SLM-Lab's workflow. A spec runs as a trial of sessions."""

from __future__ import annotations

import argparse
import importlib.resources
import importlib.util
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from envlab.arguments import ArgumentParser
from envlab.config import leaves, write_yaml
from envlab.distributed.timeouts import DEFAULT_TIMEOUT_S
from envlab.errors import ConfigurationError, EnvlabError, did_you_mean
from envlab.libraries import get_library
from envlab.run.commands import typed
from envlab.run.manifest import LOG_ROOT, read_manifest
from envlab.training.arguments import play_parser
from envlab.training.inputs import check_task, trust_of
from envlab_populations.hogwild.environments import read_heirs, with_heir
from envlab_populations.hogwild.spec import Spec, load_spec, load_specs, make_spec, read_specs

if TYPE_CHECKING:
    from envlab_populations.hogwild.preparation import Options

logger = logging.getLogger(f"envlab.{__name__}")

MODES = ("dev", "train", "search")
"""Modes, next to ``train@DIRECTORY``, ``train@latest``, ``search@...``, and ``enjoy@DIRECTORY``."""


SHIPPED_FOR = {"async_sac_roboschool.json": "async_sac_mujoco.json"}
"""Files of SLM-Lab's tutorials, and those of the same specs that come with envlab."""


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab lab run | plot | list``; return the exit code.

    Raises:
        EnvlabError: For bad input, or where a session failed.
    """
    flags = _parser().parse_args(list(arguments))
    code: int = flags.function(flags)
    return code


def run_lab(arguments: Sequence[str]) -> int:
    """Run ``scripts/run_lab.py SPEC NAME MODE``, as SLM-Lab's users call it."""
    return main(["run", *arguments])


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="envlab lab", description="Spec, trial, session: docs/lab.md.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    run = verbs.add_parser("run", help="run a spec")
    run.set_defaults(function=_run)
    run.add_argument("spec", metavar="SPEC", help="spec file, JSON or YAML")
    run.add_argument("name", metavar="NAME", help="spec in the file")
    run.add_argument(
        "mode",
        metavar="MODE",
        help="dev, train, search; train@DIRECTORY, train@latest, search@DIRECTORY, search@latest "
        "(resume); enjoy@DIRECTORY",
    )
    run.add_argument(
        *("-s", "--set"),
        action="append",
        default=[],
        dest="settings",
        metavar="KEY=VALUE",
        help="set a placeholder, or a value at a path of the spec, as meta.max_session=2",
    )
    run.add_argument(
        "--environments",
        type=Path,
        metavar="FILE",
        help="YAML file of OLD: NEW, replacements of removed environments",
    )
    run.add_argument(
        "--trust",
        action="append",
        metavar="MODULE",
        help="let the spec name environments of this module or package; may be given several times",
    )
    run.add_argument("--device", metavar="DEVICE", help="cpu (default) or cuda")
    run.add_argument(
        "--on_session_failure",
        choices=("stop", "continue"),
        default="stop",
        help="what the other sessions do if one dies or hangs (default: stop)",
    )
    run.add_argument(
        "--timeout_s",
        type=float,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="end a session that makes no progress for this long (default: %(default)g)",
    )
    run.add_argument("--verbose", action="store_true", help="also log debug messages")
    plot = verbs.add_parser("plot", help="draw the graphs of trials")
    plot.set_defaults(function=_plot)
    plot.add_argument("directories", nargs="+", metavar="DIRECTORY", help="of a trial")
    listing = verbs.add_parser("list", help="list the specs that come with envlab")
    listing.set_defaults(function=_list)
    listing.add_argument("folder", nargs="?", metavar="FOLDER", help="of other spec files")
    return parser


def _run(flags: argparse.Namespace) -> int:
    mode, _, place = flags.mode.partition("@")
    if mode == "enjoy" and place:
        return _enjoy(_directory(flags, place), flags.trust or [])
    if mode not in MODES or (place and mode == "dev"):
        known = (*MODES, "train@latest", "search@latest", "enjoy@DIRECTORY")
        raise ConfigurationError(
            f"The mode is {flags.mode!r}, but must be one of {', '.join(known)}."
            f"{did_you_mean(flags.mode, known)}"
        )
    if mode == "search":
        return _search(flags, place)
    resumes = _directory(flags, place) if place else None
    specs = load_specs(_spec_file(flags.spec), flags.name, flags.settings)
    if resumes is None:
        return _train_each(specs, flags, dev=mode == "dev")
    return _train(_saved_spec(resumes, flags), flags, dev=False, resumes=resumes)


def _train_each(specs: Sequence[Spec], flags: argparse.Namespace, *, dev: bool) -> int:
    """Train the specs of a file's ``spec_params``, one after the other; usually there is one.

    Raises:
        EnvlabError: If none can be trained, or after the others, if some cannot.
    """
    if len(specs) == 1:
        return _train(specs[0], flags, dev=dev, resumes=None)
    from envlab_populations.hogwild.translation import make_plan

    refused = {}
    for spec in specs:  # all of them before the first is trained
        try:
            make_plan(_checked(spec, flags), dev=dev)
        except EnvlabError as error:
            refused[spec.name] = error
    wanted = [spec for spec in specs if spec.name not in refused]
    for number, spec in enumerate(wanted, start=1):
        print(f"Spec {number} of {len(wanted)}: {spec.name}")
        code = _train(spec, flags, dev=dev, resumes=None)
        if code:
            return code
    if refused:
        name, why = next(iter(refused.items()))
        raise ConfigurationError(
            f"{len(refused)} of the {len(specs)} specs of spec_params cannot be trained: "
            f"{', '.join(refused)}. The first one, {name}: {why}"
        )
    return 0


def _train(spec: Spec, flags: argparse.Namespace, *, dev: bool, resumes: Path | None) -> int:
    from envlab.distributed.interrupt import Interrupted, interruptible
    from envlab.distributed.program import configure_logging
    from envlab_populations.hogwild.translation import make_plan
    from envlab_populations.hogwild.trial import run_trial

    configure_logging(verbose=flags.verbose)
    plan = make_plan(_checked(spec, flags), dev=dev)
    for line in plan.report:
        logger.info("%s.", line)
    try:
        with interruptible() as flag:
            run = run_trial(plan, replace(_options(flags), resumes=resumes), flag)
    except Interrupted as interrupted:
        logger.warning("Interrupted: %s.", interrupted)
        directory = interrupted.directory
        if directory is not None and any(directory.glob("sessions/*/checkpoints/*.pt")) and not dev:
            place = _print_trial(flags, directory)
            print(f"Resume it: {_words(flags, f'train@{place}')}")
        return interrupted.exit_code
    _print_trial(flags, run.directory)
    return 0


def _print_trial(flags: argparse.Namespace, directory: Path) -> str:
    """Print a trial's directory and the command that plays it; return the directory."""
    place = os.path.relpath(directory)
    print(f"Trial: {place}")
    print(f"Play it: {_words(flags, f'enjoy@{place}')}")
    return place


def _words(flags: argparse.Namespace, mode: str) -> str:
    return typed(["envlab", "lab", "run", flags.spec, flags.name, mode])


def _search(flags: argparse.Namespace, place: str) -> int:
    """Run or resume an experiment."""
    spec = load_spec(_spec_file(flags.spec), flags.name, flags.settings)
    if not spec.search and not spec.search_error:
        raise ConfigurationError(
            f"The spec {spec.name!r} of {flags.spec} has no search key, so there is nothing to "
            "search. Add one, or use the mode train."
        )
    if importlib.util.find_spec("optuna") is None:
        raise ConfigurationError(
            "The mode search needs optuna. Install it with: pip install -c constraints.txt -e "
            "'.[lab]'"
        )
    from envlab.distributed.interrupt import Interrupted, interruptible
    from envlab.distributed.program import configure_logging
    from envlab_populations.hogwild.experiment import Experiment, find_experiment
    from envlab_populations.hogwild.results import print_results, write_results
    from envlab_populations.hogwild.search import make_search

    configure_logging(verbose=flags.verbose)
    directory = find_experiment(flags.name, place) if place else None
    spec = spec if directory is None else _saved_spec(directory, flags)
    search = make_search(_checked(spec, flags))
    for line in search.report:
        logger.info("%s.", line)
    if directory is None:
        from envlab.run.directory import make_directory

        directory = make_directory(Path(LOG_ROOT, "hogwild", spec.name).absolute(), "search")
        write_yaml(directory / "params" / "spec.yaml", spec.values())
    logger.info("Writing to %s", directory)
    experiment = Experiment(search, _options(flags), directory)
    try:
        with interruptible():
            experiment.run()
    except Interrupted as interrupted:
        place = os.path.relpath(directory)
        logger.warning("Interrupted: %s. Resume by the mode search@%s.", interrupted, place)
        return interrupted.exit_code
    print_results(write_results(experiment), experiment, flags.spec)
    return 0


def _checked(spec: Spec, flags: argparse.Namespace) -> Spec:
    """Return a spec whose environment may be looked up, with the one that takes its place if gone.

    Raises:
        ConfigurationError: If a file names an environment of a module that is not trusted.
    """
    spec = with_heir(spec, read_heirs(flags.environments))
    trust = trust_of(flags.trust, [setting.partition("=")[2] for setting in flags.settings])
    searched = [choices for path, choices in spec.search.items() if path.startswith("env")]
    for _, text in leaves({"env": [spec.env.get("name"), searched]}, ""):
        if isinstance(text, str):
            check_task(text, trust)
    return spec


def _options(flags: argparse.Namespace) -> Options:
    from envlab_populations.hogwild.preparation import Options

    return Options(
        device=flags.device,
        continues=flags.on_session_failure == "continue",
        timeout_s=flags.timeout_s,
        verbose=flags.verbose,
    )


def _saved_spec(directory: Path, flags: argparse.Namespace) -> Spec:
    """Return the spec that a trial was run with, with the command line's settings."""
    path = directory / "params" / "spec.yaml"
    (name, values), *_ = read_specs(path).items()
    return make_spec(name, values, flags.settings, origin=str(path))


def _directory(flags: argparse.Namespace, place: str) -> Path:
    """Return the directory of a trial, or the newest one of the spec.

    Raises:
        EnvlabError: If it is not a trial, or has no model.
    """
    if place == "latest":
        from envlab.run.find import find_run

        return find_run("hogwild", flags.name)
    directory = Path(place)
    manifest = read_manifest(directory)
    if manifest.get("library") != "hogwild":
        raise ConfigurationError(
            f"{place!r} is a run of {manifest.get('library')}, but not a trial of envlab lab. Play "
            f"it by: envlab play {manifest.get('library')}."
        )
    if not any((directory / "checkpoints").glob("*.pt")):
        raise ConfigurationError(
            f"{place!r} has no model: there is no checkpoint in {directory / 'checkpoints'}. "
            "Name a trial that has been trained."
        )
    return directory.absolute()


def _enjoy(directory: Path, trusted: Sequence[str]) -> int:
    """Play a trial's policy.

    Raises:
        ConfigurationError: If its task is of a module that is not trusted.
    """
    from envlab.training.play import run_playing

    manifest, library = read_manifest(directory), get_library("hogwild")
    check_task(str(manifest["task"]), trust_of(trusted))
    words = [f"--task={manifest['task']}", f"--algorithm={manifest['algorithm']}"]
    words += [f"--load_run={directory}", "--device=cpu", *(f"--trust={one}" for one in trusted)]
    return run_playing(library, *play_parser(library).parse_with_overrides(words))


def _plot(flags: argparse.Namespace) -> int:
    from envlab_populations.hogwild.graphs import draw_trial, draw_trials

    directories = [_directory(flags, place) for place in flags.directories]
    written = [path for directory in directories for path in draw_trial(directory)]
    if len(directories) > 1:
        written += draw_trials(directories, Path())
    for path in written:
        print(os.path.relpath(path))
    return 0


def _list(flags: argparse.Namespace) -> int:
    folder = Path(flags.folder) if flags.folder else _shipped()
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".yaml", ".yml"))
    if not paths:
        raise ConfigurationError(f"There is no spec file in {folder}. Name a folder with some.")
    for path in paths:
        print(os.path.relpath(path))
        for name, spec in read_specs(path).items():
            described = make_spec(name, spec, origin=str(path))
            count, shared = described.meta.get("max_session", 1), described.meta.get("distributed")
            print(
                f"  {name:<28} {described.agent['algorithm'].get('name')}, "
                f"{described.env.get('name')}, {count} session{'s' * (count != 1)}"
                f"{f', {shared}' if shared else ''}"
            )
    return 0


def _spec_file(given: str) -> Path:
    """Return a spec file, or where there is none the one of this name that comes with envlab."""
    path = Path(given)
    if path.exists():
        return path
    name = SHIPPED_FOR.get(path.name, path.name)
    found = next(_shipped().rglob(name), None)
    if found is None:
        return path
    logger.warning("There is no %s here: envlab's %s replaces it.", path, name)
    return found


def _shipped() -> Path:
    """Return the folder of the specs that come with envlab's tasks."""
    return Path(str(importlib.resources.files("envlab_populations"))) / "specs"
