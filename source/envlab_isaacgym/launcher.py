"""Runs a script in which ``isaacgym`` is envlab's."""

from __future__ import annotations

import logging
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from envlab.distributed.ranks import launched_local_rank, tell, tell_launcher
from envlab.errors import ConfigurationError, DeviceError, EnvlabError
from envlab.training.flags import PORT
from envlab_bridge.errors import not_installed, own_line
from envlab_isaacgym.check import own_packages
from envlab_isaacgym.shim import (
    draw_without_display,
    install,
    offer_absent,
    offer_gym,
    restore_numpy_names,
    restore_seq_len,
    take_numbers_for_conditions,
    take_numpy_sizes,
)

# Set before torch loads OpenMP, whose waiting threads would spin; see distributed.program.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Without it, Hydra prints our errors with its traceback, and exits with another code.
os.environ.setdefault("HYDRA_FULL_ERROR", "1")

logger = logging.getLogger(f"envlab.{__name__}")

_MISSING_NAMED = 5
"""Most missing methods that are named at the start."""

_NO_BOOL = "where expected condition to be a boolean tensor"
_NUMBERS = (
    "The script gives torch.where a condition of numbers, which torch accepted when it was "
    "written. Start it with PYTORCH_JIT=0 in the environment: TorchScript then compiles no code, "
    "and such conditions are accepted."
)
_NO_CUDA = ("Torch not compiled with CUDA enabled", "Found no NVIDIA driver", "No CUDA GPUs")
"""torch's messages without a GPU."""
_NO_CUDA_COMPILED = "with arguments from the 'CUDA' backend"
_COMPILED = (
    "The script gives a GPU to functions that TorchScript compiled, and torch sees none here. Give "
    "the script its own settings for the CPU (IsaacGymEnvs: sim_device=cpu rl_device=cpu "
    "pipeline=cpu), or start it with --cpu and PYTORCH_JIT=0 in the environment."
)

_FLAGS = ("--cpu", "--distributed", "--rsl-rl-1")
_FLAGS_WITH_VALUE = ("--viz", "--viz_port")
USAGE = """usage: python -m envlab_isaacgym [--cpu] [--distributed] [--rsl-rl-1] [--viz web]
                                 SCRIPT ...

Run a script in which `import isaacgym` finds envlab's own implementation on MuJoCo, with the names
that numpy has taken away since (np.float) in their places.

  --cpu        take the CPU wherever the script names a GPU, as some do with no flag to change it
  --distributed
               be one of the ranks that torchrun has started, as is taken for granted where it has:
               python -m torch.distributed.run --nproc_per_node=2 -m envlab_isaacgym SCRIPT ...
  --rsl-rl-1   let rsl_rl.runners.OnPolicyRunner be the one of rsl_rl 1, over the installed release;
               without it, it is where a script gives it rsl_rl 1's configuration
  --viz web    show what the script simulates in a browser, on rank 0, and print the address;
               --viz_port N wants another port than 8088

`envlab isaacgym check PATH` says beforehand what a script uses that is missing.
"""


def main(arguments: Sequence[str]) -> int:
    """Run a script; bad input is one sentence and code 2."""
    try:
        return run(arguments)
    except EnvlabError as error:
        return tell(error)
    except ModuleNotFoundError as error:
        if error.name is None or _is_of_envlab(error):
            raise
        return tell(ConfigurationError(not_installed(error)))
    except Exception as error:
        if _NO_BOOL in str(error):
            return tell(ConfigurationError(_NUMBERS))
        if _NO_CUDA_COMPILED in str(error):
            return tell(DeviceError(_COMPILED))
        if any(sentence in str(error) for sentence in _NO_CUDA):
            return tell(DeviceError(_named_gpu(error)))
        tell_launcher(error)
        raise


def _is_of_envlab(error: ModuleNotFoundError) -> bool:
    root = str(error.name).partition(".")[0]
    return root == "isaacgym" or root.startswith("envlab")


def _named_gpu(error: Exception) -> str:
    """Return a remedy if a script needs a GPU that does not exist."""
    return (
        f"{own_line(error)} needs a GPU, and torch sees none here. Give the script a flag for the "
        "CPU, if it has one, or take the CPU wherever it names a GPU: python -m envlab_isaacgym "
        "--cpu SCRIPT ..."
    )


def run(arguments: Sequence[str]) -> int:
    """Run a script as ``python SCRIPT ...`` would; the current folder stays importable."""
    words = list(arguments)
    flags, values = _own_flags(words)
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    script = Path(words[0])
    if words[0].startswith("-") or not script.is_file():
        raise ConfigurationError(
            f"There is no script {words[0]!r}. Usage: python -m envlab_isaacgym [--cpu] "
            "[--distributed] [--rsl-rl-1] [--viz web] SCRIPT ..."
        )
    port = _port(values)
    if "--cpu" in flags:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # set before torch looks for GPUs
    logging.basicConfig(level=logging.WARNING, format="envlab_isaacgym: %(message)s")
    restore_numpy_names()
    take_numbers_for_conditions()
    take_numpy_sizes()
    draw_without_display()
    install()
    offer_gym()
    offer_absent()
    if "rl_games" in script.read_text(encoding="utf-8", errors="replace"):
        restore_seq_len()  # after gym, which rl_games of that time imports
    from envlab_bridge.agreement import check_launch, compare_rl_games
    from envlab_bridge.ranks import join_ranks, take_cpu_for_cuda
    from envlab_isaacgym.rsl_rl_1 import offer_rsl_rl_1
    from envlab_isaacgym.watching import watching

    if "--viz" in values:
        watching.want(values["--viz"], port, f"{script.resolve().parent.name}/{script.name}")
    _find_own_packages(script)
    offer_rsl_rl_1(always="--rsl-rl-1" in flags)
    folders = [script.resolve().parent, Path.cwd()]
    if launched_local_rank() == 0:
        _tell_missing(script, folders)
    sys.argv = words
    sys.path[:0] = [str(folder) for folder in folders if str(folder) not in sys.path]
    context, is_done = join_ranks("--distributed" in flags), False
    if "--cpu" in flags:
        take_cpu_for_cuda()
    try:
        check_launch(words)
        compare_rl_games()
        runpy.run_path(str(script), run_name="__main__")
        is_done = True
    finally:
        watching.close()
        context.close(abort=not is_done)
    return 0


def _find_own_packages(script: Path) -> None:
    """Put packages of the script's checkout on the path, as ``pip install -e`` of each would.

    Projects bring their own ``rsl_rl``, whose settings no release has.
    """
    own = own_packages(script)
    for name, folder in own.items():
        logger.warning("%s is the checkout's own, in %s.", name, folder)
    sys.path[:0] = dict.fromkeys(str(folder) for folder in own.values())


def _own_flags(words: list[str]) -> tuple[set[str], dict[str, str]]:
    """Take the launcher's flags from the words before the script's name.

    Raises:
        ConfigurationError: If one lacks its value.
    """
    flags, values = set(), {}
    while words and words[0].partition("=")[0] in (*_FLAGS, *_FLAGS_WITH_VALUE):
        name, equals, value = words.pop(0).partition("=")
        if name in _FLAGS and not equals:
            flags.add(name)
        elif name in _FLAGS_WITH_VALUE and (equals or words):
            values[name] = value if equals else words.pop(0)
        else:
            needs = "takes no value" if name in _FLAGS else "needs a value, such as --viz web"
            raise ConfigurationError(f"{name} {needs}. See python -m envlab_isaacgym --help.")
    return flags, values


def _port(values: Mapping[str, str]) -> int:
    """Return the wanted port of the page.

    Raises:
        ConfigurationError: If it is not a port, or there is no page.
    """
    given = values.get("--viz_port", str(PORT))
    if "--viz_port" in values and "--viz" not in values:
        raise ConfigurationError(f"--viz_port is {given}, but has no effect without --viz web.")
    if not given.isdigit() or int(given) >= 2**16:
        raise ConfigurationError(f"--viz_port is {given!r}, but must be a number from 0 to 65535.")
    return int(given)


def _tell_missing(script: Path, folders: Sequence[Path]) -> None:
    """Warn of missing names that a script uses, before it runs for hours."""
    from envlab_isaacgym.check import missing_in

    missing = missing_in(script, folders)
    for use in missing[:_MISSING_NAMED]:
        logger.warning("%s:%s: %s is missing: it %s.", use.path, use.line, use.name, use.remark)
    if len(missing) > _MISSING_NAMED:
        logger.warning("%s more are missing: envlab isaacgym check", len(missing) - _MISSING_NAMED)
