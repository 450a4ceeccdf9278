#!/usr/bin/env python3
"""Train on the nodes of a cluster: envlab cluster launch, with AllenAct's flags; see --help."""

import sys

from envlab.distributed.program import guarded
from envlab_cluster.allenact_flags import dmain

if __name__ == "__main__":
    raise SystemExit(guarded(dmain, sys.argv[1:]))
