#!/usr/bin/env python3
"""Run a command on all nodes: envlab cluster command, with AllenAct's flags; see --help."""

import sys

from envlab.distributed.program import guarded
from envlab_cluster.allenact_flags import dcommand

if __name__ == "__main__":
    raise SystemExit(guarded(dcommand, sys.argv[1:]))
