"""A rank of the doctor, of which rank 1 has other versions, files, settings and time."""

from __future__ import annotations

import os
import sys
import time

from envlab.doctor import ranks

if os.environ["RANK"] == "1":
    own_facts, own_time = ranks.rank_facts, time.time

    def planted(context):
        facts = own_facts(context)
        facts["version"]["torch"] = "2.12.1"
        facts["files"]["envlab_tasks"] = "0123456789ab"
        facts["setting"]["NCCL_DEBUG"] = "INFO"
        return facts

    ranks.rank_facts = planted
    time.time = lambda: own_time() + 100.0

from envlab.cli import main

raise SystemExit(main(["doctor", "--distributed", "--device=cpu", "--only=none", *sys.argv[1:]]))
