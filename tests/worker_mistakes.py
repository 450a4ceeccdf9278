"""Runs command lines in forks of this process, and reports the output and cost of each.

Each line of standard input is a request, ``{"folder": where, "words": [...]}``, and is answered by
a line. With the argument ``late`` torch, the libraries and a task are imported first, because their
import alone takes most of a mistake's time limit, and more than all the rest; with ``early``, what
is imported without torch.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import runpy
import signal
import sys
import tempfile

import envlab.cli

DEADLINE_S = 100
"""A command line that is not refused trains, until this ends it."""


def run(folder: str, words: list[str]) -> dict[str, object]:
    """Run ``envlab WORDS``, or a script, in a fork."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os.chdir(folder)
            signal.alarm(DEADLINE_S)
            code = 70
            try:
                code = main(words)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code + 100 * ("torch" in sys.modules))
        _, status, usage = os.wait4(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return {
            "code": code % 100,
            "out": out.read(),
            "err": err.read(),
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "loads_torch": code >= 100,
        }


def main(words: list[str]) -> int:
    """Return the exit code of ``envlab WORDS``; a first word that is a path is run instead."""
    if "/" not in words[0]:
        return envlab.cli.main(words)
    sys.argv[:] = words
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    gc.disable()
    if sys.argv[1:] == ["late"]:
        from tests.fork_server import preload

        preload()
        with contextlib.redirect_stdout(io.StringIO()):
            for library in ("rsl_rl", "rl_games", "skrl"):
                envlab.cli.main(["config", library, "--task=Isaac-Cartpole-v0"])
        # A camera's kernels are compiled once on a machine, which takes some ten seconds.
        task = "--task=Isaac-Cartpole-Depth-Camera-Direct-v0"
        run(os.getcwd(), ["random", task, "--num_envs=2", "--num_steps=1"])
    else:  # what every command line imports
        with contextlib.redirect_stderr(io.StringIO()):
            for words in (["train", "skrl", "--task=Nope"], ["play", "rsl_rl", "--task=Nope"]):
                envlab.cli.main(words)
    gc.collect()
    gc.enable()
    gc.freeze()  # else each fork looks at all objects of the libraries, and copies their pages
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)
    os._exit(0)  # the libraries' clean-up takes seconds
