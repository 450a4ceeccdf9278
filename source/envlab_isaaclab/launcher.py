"""Runs a script in which ``isaaclab`` is the user's own, on envlab's simulators."""

from __future__ import annotations

import importlib.util
import logging
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

# Before mujoco, which with mujoco[usd] gives the symbols of USD's libraries to all that is loaded
# after them: torch.jit.load then ends with "free(): invalid pointer" (mujoco 4.0.0, torch 2.13).
import torch  # noqa: F401

from envlab.distributed.ranks import tell
from envlab.errors import ConfigurationError, EnvlabError
from envlab_isaaclab import absent, hook, upstream
from envlab_isaaclab.kit import SETTINGS
from envlab_isaaclab.project import add_packages
from envlab_isaaclab.refusals import forget, sentence_of

# Set before torch loads OpenMP, whose waiting threads would spin; see distributed.program.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Without it, Hydra prints our errors with its traceback, and exits with another code.
os.environ.setdefault("HYDRA_FULL_ERROR", "1")

USAGE = """usage: python -m envlab_isaaclab [--isaaclab FOLDER] [--nucleus FOLDER] SCRIPT ...

Run a script for Isaac Lab 2 in which Isaac Sim is replaced by MuJoCo. Isaac Lab's own Python files
are the ones that are installed (pip install --no-deps isaaclab==2.3.2.post1), or a checkout's.

  --isaaclab FOLDER   a checkout of Isaac Lab 2.3, or the folder of the installed package
  --nucleus FOLDER    where copies of files from Nvidia's server lie

`envlab isaaclab check FOLDER` says beforehand which tasks of Isaac Lab can be made here.
"""
_FLAGS = ("--isaaclab", "--nucleus")


def main(arguments: Sequence[str]) -> int:
    """Run a script; bad input is one sentence and code 2."""
    try:
        return run(arguments)
    except EnvlabError as error:
        sys.unraisablehook = forget
        return tell(error)
    except (ImportError, AttributeError, FileNotFoundError) as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        return tell(ConfigurationError(sentence))


def run(arguments: Sequence[str]) -> int:
    """Run a script as ``python SCRIPT ...`` would.

    Raises:
        ConfigurationError: If there is no such script, or no Isaac Lab.
    """
    words = list(arguments)
    values = _own_flags(words)
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    script = Path(words[0])
    if words[0].startswith("-") or not script.is_file():
        raise ConfigurationError(
            f"There is no script {words[0]!r}. Usage: python -m envlab_isaaclab SCRIPT ..."
        )
    logging.basicConfig(level=logging.WARNING, format="envlab_isaaclab: %(message)s")
    prepare(values.get("--isaaclab"), values.get("--nucleus"))
    from envlab_bridge.agreement import check_launch
    from envlab_bridge.ranks import join_ranks

    sys.argv = words
    folders = [str(script.resolve().parent), str(Path.cwd())]
    add_packages(script)
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    context, is_done = join_ranks("--distributed" in words), False
    try:
        check_launch(words)
        runpy.run_path(str(script), run_name="__main__")
        is_done = True
    finally:
        context.close(abort=not is_done)
    return 0


def prepare(isaaclab: str | None = None, nucleus: str | None = None) -> Path:
    """Let ``isaaclab`` be imported in this process, without Isaac Sim.

    Args:
        isaaclab: See :func:`envlab_isaaclab.upstream.find`.
        nucleus: Folder with copies of files from Nvidia's server.

    Returns:
        The folder of Isaac Lab's packages.
    """
    source = upstream.find(isaaclab)
    if nucleus is not None:
        SETTINGS.set("/persistent/isaac/asset_root/cloud", nucleus)
    import builtins

    vars(builtins)["ISAAC_LAUNCHED_FROM_TERMINAL"] = False
    vars(builtins)["ISAACLAB_CALLBACK_EXCEPTION"] = None
    absent.offer()
    hook.install()
    upstream.add_to_path(source)
    if importlib.util.find_spec("rsl_rl") is not None:
        from envlab_isaaclab import rsl_rl_3

        rsl_rl_3.offer()
    sys.modules.pop("isaaclab", None)
    return source


def _own_flags(words: list[str]) -> dict[str, str]:
    """Take the launcher's flags from the words before the script's name.

    Raises:
        ConfigurationError: If one lacks its value.
    """
    values = {}
    while words and words[0].partition("=")[0] in _FLAGS:
        name, equals, value = words.pop(0).partition("=")
        if not equals and not words:
            raise ConfigurationError(
                f"{name} needs a folder. See python -m envlab_isaaclab --help."
            )
        values[name] = value if equals else words.pop(0)
    return values
