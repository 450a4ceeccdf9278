"""``envlab cluster sky``: a training run as a managed job of SkyPilot on a cloud's machines.

The fields are those of SkyPilot 0.14.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from envlab.errors import ConfigurationError, LaunchError
from envlab.train.arguments import ArgumentParser
from envlab_cluster import job as jobs
from envlab_cluster.job import RETRIED, Job, add_flag, say

STORES = ("s3", "gcs", "azure", "r2", "ibm", "oci", "nebius", "coreweave")
PORT = 29500
"""Where nodes meet: the machines are this job's alone."""
_EPILOG = """LIBRARY is rsl_rl, rl_games, skrl, ddppo, or a training script; then
come its own flags and overrides. --distributed and --run_id are added to them.

  envlab cluster sky --nodes 2 --gpus-per-node H100:8 --bucket my-envlab-logs \\
      rsl_rl --task Isaac-Ant-v0 --max_iterations 2000

Where there is no sky, the file is written."""


def main(arguments: Sequence[str]) -> int:
    """Start the job, or write or print its file; return the exit code.

    Raises:
        ConfigurationError: If the job could not work as asked for.
        LaunchError: If sky cannot be called.
    """
    flags = jobs.parse(_parser(), arguments)
    _check(flags)
    job = jobs.describe(flags, name=flags.name, folder=Path.cwd())
    if job.gpus_per_node and job.gpu_type is None:
        raise ConfigurationError(
            f"--gpus-per-node is {flags.gpus_per_node!r}, but SkyPilot must know which GPUs: "
            f"TYPE:{job.gpus_per_node}, as in H100:{job.gpus_per_node}. sky show-gpus lists them."
        )
    job = jobs.with_run_id(job, name=jobs.name_like(job.name))
    text = _file(job, flags, shlex.join(["envlab", "cluster", "sky", *arguments]))
    path = flags.output or f"{job.name}.sky.yaml"
    launch = ["sky", "jobs", "launch", path]
    if flags.dry_run or flags.output == jobs.STDOUT:
        print(text, end="")
        return 0
    has_sky = shutil.which("sky") is not None
    if flags.output is None and not has_sky:
        say("There is no sky here.")
    jobs.write(text, Path(path))
    if flags.output is not None or not has_sky:
        say(f"Start it with: {shlex.join(launch)}")
        return 0
    try:
        code = subprocess.run(launch).returncode  # it asks before it rents anything
        return code if code >= 0 else 128 - code
    except OSError as error:
        raise LaunchError(f"The job could not be started: {error}.") from None


def _parser() -> ArgumentParser:
    parser = jobs.make_parser(
        "sky", "Train on a cloud's machines, as a managed job of SkyPilot.", _EPILOG
    )

    def add(name: str, **kwargs: object) -> None:
        add_flag(parser, name, **kwargs)

    add("bucket", metavar="NAME", help="bucket for logs/, made if it does not exist")
    add("store", choices=STORES, help="where the bucket is (default: the cloud's own)")
    add("name", metavar="NAME", help="name of the job (default: the task's)")
    add("infra", metavar="CLOUD[/REGION]", help="such as aws/us-east-1 or k8s (default: cheapest)")
    add("image", metavar="IMAGE", help="machine or container image (default: SkyPilot's)")
    add("cpus_per_node", metavar="N[+]", help="CPU cores a node; 16+ is 16 or more")
    add("mem", metavar="GB[+]", help="memory a node; 64+ is 64 GB or more")
    add("on_demand", action="store_true", help="no spot machines")
    add("env", action="append", default=[], metavar="K=V", help="a variable; repeat it")
    add("extras", metavar="A,B", help="extras to install (default: warp with GPUs, none without)")
    jobs.add_flags(parser)
    return parser


def _check(flags: argparse.Namespace) -> None:
    if not flags.bucket:
        raise ConfigurationError(
            "--bucket is missing: a machine that is taken back takes its disk along, so that "
            "logs/ must be elsewhere. Name a bucket; it is made if it does not exist."
        )
    if re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", flags.bucket) is None:
        raise ConfigurationError(
            f"--bucket is {flags.bucket!r}, but has 3 to 63 small letters, digits, dots and "
            "hyphens, and begins and ends with a letter or digit."
        )
    jobs.check_name("name", flags.name)
    for name in ("cpus_per_node", "mem"):
        value = getattr(flags, name)
        if value is not None and re.fullmatch(r"(?=.*[1-9])[0-9]+(\.[0-9]+)?\+?", value) is None:
            raise ConfigurationError(
                f"{jobs.spelled(name)} is {value!r}, but must be a number such as 16, or 16+."
            )


def _file(job: Job, flags: argparse.Namespace, command: str) -> str:
    accelerators = f"{job.gpu_type}:{job.gpus_per_node}" if job.gpus_per_node else None
    resources = {
        "infra": flags.infra,
        "accelerators": accelerators,
        "cpus": flags.cpus_per_node,
        "memory": flags.mem,
        "image_id": flags.image,
        "use_spot": not flags.on_demand,
        "job_recovery": {"max_restarts_on_errors": 0, "recover_on_exit_codes": RETRIED},
    }
    extras = flags.extras or ("warp" if job.gpus_per_node else "")
    own_ip = 'sed -n "$((SKYPILOT_NODE_RANK + 1))p" <<<"$SKYPILOT_NODE_IPS"'
    processes = "$SKYPILOT_NUM_GPUS_PER_NODE" if job.gpus_per_node else str(job.processes_per_node)
    script = jobs.torchrun(
        job,
        nodes="$SKYPILOT_NUM_NODES",
        node_rank="$SKYPILOT_NODE_RANK",
        processes=processes,
        endpoint=f"${{SKYPILOT_NODE_IPS%%$'\\n'*}}:{PORT}",
        options=f'--local_addr="$({own_ip})" ',
        python="python",  # SkyPilot appends to this script what waits for the bucket's uploads
    )
    values = {
        "name": job.name,
        "nodes": job.nodes,
        "resources": {name: one for name, one in resources.items() if one is not None},
        "bucket": {"name": flags.bucket, "mode": "MOUNT_CACHED"}
        | ({"store": flags.store} if flags.store else {}),
        "env": jobs.environment(flags.env, reserved="SKYPILOT_"),
    }
    texts = {name: json.dumps(value) for name, value in values.items()} | {
        "command": command,
        "extras": shlex.quote(extras),
        "script": script,
        "train": " \\\n".join(map(shlex.quote, job.train)),
    }
    return jobs.fill("sky.yaml", texts)
