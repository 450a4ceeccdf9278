#!/usr/bin/env python3
"""Set up the nodes of a cluster: envlab cluster setup, with AllenAct's flags; see --help."""

import sys

from envlab.distributed.program import guarded
from envlab_cluster.allenact_flags import dconfig

if __name__ == "__main__":
    raise SystemExit(guarded(dconfig, sys.argv[1:]))
