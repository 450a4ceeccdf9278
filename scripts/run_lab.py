#!/usr/bin/env python3
"""Run a spec as a trial of sessions, as SLM-Lab's script of this name does; see --help."""

import sys

from envlab.distributed.program import guarded
from envlab_populations.hogwild.command import run_lab

if __name__ == "__main__":
    raise SystemExit(guarded(run_lab, sys.argv[1:]))
