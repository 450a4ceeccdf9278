#!/usr/bin/env python3
"""Stop a run on all nodes: envlab cluster kill, with AllenAct's flags; see --help."""

import sys

from envlab.distributed.program import guarded
from envlab_cluster.allenact_flags import dkill

if __name__ == "__main__":
    raise SystemExit(guarded(dkill, sys.argv[1:]))
