"""Entry points of clusters: a command."""

from __future__ import annotations

from envlab.commands import Command
from envlab_cluster.verbs import VERBS

CLUSTER = Command(
    name="cluster",
    main="envlab_cluster.verbs:main",
    usage="cluster VERB",
    description="train on several machines by ssh, or by Slurm",
    words=tuple(VERBS),
)
