"""Runs a program in which ``agilerl`` is envlab's."""

from __future__ import annotations

import ast
import os
import re
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError, EnvlabError

ENVLAB = Path(__file__).resolve().parents[2]
"""Folder of the optional packages."""
USAGE = """usage: python -m envlab_populations.agilerl [--traceback] SCRIPT ...

Run a program of AgileRL's, such as demos/single_agent/demo_off_policy.py, in which `import agilerl`
finds envlab's populations. On several processes, under Accelerate:

    accelerate launch --config_file scripts/reinforcement_learning/evolution/accelerate.yaml \\
        -m envlab_populations.agilerl SCRIPT ...

A program that fails says where in one sentence; --traceback shows all of it. docs/from_agilerl.md
says what differs.
"""


def main(arguments: Sequence[str]) -> int:
    """Run a program; bad input is one sentence and code 2."""
    return guarded(run, list(arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a program as ``python SCRIPT ...`` would; the current folder stays importable.

    Raises:
        ConfigurationError: If there is no such script.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    shows_all = arguments[0] == "--traceback"
    arguments = arguments[shows_all:] or ["--traceback"]
    script = Path(arguments[0])
    if not script.is_file():
        raise ConfigurationError(
            f"There is no script {arguments[0]!r}. Usage: python -m envlab_populations.agilerl "
            "SCRIPT ..."
        )
    import torch

    from envlab_populations.agilerl import selection
    from envlab_populations.agilerl.names import install

    if not torch.cuda.is_available():
        # Without a GPU, Accelerate (1.15) takes each of several processes for a lone one.
        os.environ.setdefault("ACCELERATE_USE_CPU", "true")
    install()
    selection.selected_parts[0] = results_of_select(script)
    sys.argv = list(arguments)
    folders = [str(script.resolve().parent), str(Path.cwd())]
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except Exception as error:
        short = None if shows_all or isinstance(error, EnvlabError) else failure(error, script)
        if short is None:
            raise
        raise short from error
    return 0


def failure(error: Exception, script: Path) -> ConfigurationError | None:
    """Return the sentence on a program that failed; None if it was envlab that did."""
    if lacks := _lack(error):
        return lacks
    frames = traceback.extract_tb(error.__traceback__)
    folder = str(script.resolve().parent)
    own = [frame for frame in frames if str(Path(frame.filename).resolve()).startswith(folder)]
    if not own or Path(frames[-1].filename).is_relative_to(ENVLAB):
        return None
    where = f"{own[-1].filename}, line {own[-1].lineno}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return ConfigurationError(
            f"{where}, imports {error.name}, which is neither installed nor next to the program. "
            "Install its package, or run the program from the folder that has it."
        )
    reason = (str(error).splitlines() or [""])[0]
    return ConfigurationError(
        f"The program fails in {where} ({type(error).__name__}: {reason}). Correct it; "
        "--traceback before the program's name shows the calls that led to it."
    )


_MISFIT = re.compile(
    r"(\w+)\.(\w+)\(\) (got an unexpected keyword|missing 1 required positional) argument:? '(\w+)'"
)


def _lack(error: Exception) -> ConfigurationError | None:
    """Return the sentence on a name of another version of AgileRL's, which is not the user's."""
    found = _MISFIT.search(str(error)) if isinstance(error, TypeError) else None
    from envlab_populations.agilerl import agent

    what = ""
    if found is not None and hasattr(agent, found[1]):
        what = f"{found[1]}.{found[2]} {'with' if 'got' in found[3] else 'without'} {found[4]}"
    elif isinstance(error, AttributeError) and type(error.obj).__module__ == agent.__name__:
        what = f"{type(error.obj).__name__}.{error.name}"
    if not what:
        return None
    return ConfigurationError(
        f"The program uses {what}, which does not fit envlab's agents: it is written for another "
        "version of AgileRL. docs/from_agilerl.md says what runs."
    )


def results_of_select(script: Path) -> int:
    """Return how many results of ``tournament.select`` a program takes: two until 2.8, then three.

    Raises:
        ConfigurationError: If it is no Python.
    """
    try:
        tree = ast.parse(script.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{script} is not Python: {error}. Correct it.") from error
    for node in ast.walk(tree):
        is_call = isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if is_call and getattr(node.value.func, "attr", "") == "select":  # type: ignore[attr-defined]
            target = node.targets[0]  # type: ignore[attr-defined]
            if isinstance(target, ast.Tuple):
                return len(target.elts)
    return 3
