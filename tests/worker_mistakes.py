"""Runs command lines in forks of one process, and reports the output and cost of each.

It reads ``{"early": [words, ...], "late": [...]}`` from standard input, and writes a list of
results. Mistakes that need a task's configuration are late: for these torch is imported before the
fork, because its import alone takes most of a mistake's time limit.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile

import envlab.cli

LATE = ("envlab.envs", "hydra.core.override_parser.overrides_parser")


def run(words: list[str]) -> dict[str, object]:
    """Run ``envlab WORDS`` in a fork."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            code = 70
            try:
                code = envlab.cli.main(words)
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


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    results = [run(words) for words in asked["early"]]
    for name in LATE:
        importlib.import_module(name)
    results += [run(words) for words in asked["late"]]
    json.dump(results, sys.stdout)
