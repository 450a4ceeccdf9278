"""A fake Slurm: commands that act like Slurm's on this machine alone, and record requests.

``sbatch`` keeps the script that it is given. :meth:`FakeSlurm.start` runs it as slurmd would: in
the folder of its ``--chdir``, with the job's variables, its output in a file. ``srun`` starts its
command once for each node, all of them here, and waits.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.launcher import Launch

JOB = 10 * os.getpid()  # nodes meet by it, so it is unique among concurrent tests
PORT = 10000 + JOB % 20000

SRUN = """\
import os, subprocess, sys

words = sys.argv[1:]
command = words[words.index("bash"):]  # the words before it are srun's own options
names = os.environ["FAKE_SLURM_NODES"].split()
nodes = [
    subprocess.Popen(command, env={**os.environ, "SLURMD_NODENAME": name, "SLURM_NODEID": str(id)})
    for id, name in enumerate(names)
]
sys.exit(max(node.wait() & 0xFF for node in nodes))
"""
SCONTROL = """\
echo "$3" | tr , '\\n'  # show hostnames a,b
"""
SBATCH = """\
if [ -n "$FAKE_SBATCH_REFUSES" ]; then echo "$FAKE_SBATCH_REFUSES" >&2; exit 1; fi
cat >"{folder}/submitted.sh"
echo {job}
"""


class FakeSlurm:
    """Slurm's commands on PATH. The first node is ``localhost``, as it must be reachable."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.script = folder / "submitted.sh"
        self._environment = monkeypatch
        (folder / "bin").mkdir()
        for name, text in {
            "srun": f"#!{sys.executable}\n{SRUN}",
            "scontrol": f"#!/bin/bash\n{SCONTROL}",
            "sbatch": f"#!/bin/bash\n{SBATCH.format(folder=folder, job=JOB)}",
        }.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")

    def directive(self, name: str) -> str:
        """Return a directive of the script that was submitted."""
        (value,) = re.findall(rf"^#SBATCH --{name}=(.*)$", self.script.read_text(), re.MULTILINE)
        return value.strip('"')

    def start(self, *, task: int | None = None) -> Launch:
        """Start the job; ``task`` is its place in the array."""
        count = int(self.directive("nodes"))
        nodes = ["localhost", *(f"node{number}" for number in range(1, count))]
        variables = {
            "SLURM_JOB_ID": str(JOB + (task or 0)),
            "SLURM_JOB_NODELIST": ",".join(nodes),
            "SLURM_NNODES": str(count),
            "FAKE_SLURM_NODES": " ".join(nodes),
        }
        if task is not None:
            variables["SLURM_ARRAY_TASK_ID"] = str(task)
        for name, value in variables.items():
            self._environment.setenv(name, value)
        return Launch(["bash", self.script], Path(self.directive("chdir")))
