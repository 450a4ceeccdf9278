"""``envlab cluster sky``: a training run as a managed job of SkyPilot on a cloud's machines.

The fields are those of SkyPilot 0.14.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from envlab.errors import ConfigurationError, LaunchError
from envlab_cluster.job import Job, describe
from envlab_cluster.scheduler import (
    NAME,
    RETRIED,
    Flag,
    Kind,
    Scheduler,
    fill,
    name_like,
    variable,
    write,
)

PORT = 29500
"""Port of the rendezvous: no other job uses the machines."""
STORE = Kind(
    "s3|gcs|azure|r2|ibm|oci|nebius|coreweave",
    "but must be one of s3, gcs, azure, r2, ibm, oci, nebius and coreweave",
)
BUCKET = Kind(
    "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
    "but has 3 to 63 small letters, digits, dots and hyphens, and begins and ends with a letter or "
    "digit",
)
AMOUNT = Kind(r"(?=.*[1-9])[0-9]+(\.[0-9]+)?\+?", "but must be a number such as 16, or 16+")
SKY = Scheduler(
    name="sky",
    program="sky",
    description="Train on a cloud's machines, as a managed job of SkyPilot.",
    example="--gpus-per-node H100:8 --bucket my-envlab-logs",
    flags=(
        Flag(
            "bucket",
            "NAME",
            "bucket for logs/, made if it does not exist",
            BUCKET,
            missing="a preempted machine loses its disk, so logs/ must be elsewhere. Name a "
            "bucket; it is made if it does not exist",
        ),
        Flag("store", "STORE", "where the bucket is (default: the cloud's own)", STORE),
        Flag("name", "NAME", "name of the job (default: the task's)", NAME),
        Flag("infra", "CLOUD[/REGION]", "such as aws/us-east-1 or k8s (default: cheapest)"),
        Flag("image", "IMAGE", "machine or container image (default: SkyPilot's)"),
        Flag("cpus_per_node", "N[+]", "CPU cores a node; 16+ is 16 or more", AMOUNT),
        Flag("mem", "GB[+]", "memory a node; 64+ is 64 GB or more", AMOUNT),
        Flag("on_demand", None, "no spot machines"),
        Flag("env", "K=V", "a variable; repeat it", variable("SKYPILOT_"), repeats=True),
        Flag("extras", "A,B", "extras to install (default: warp with GPUs, none without)"),
    ),
)


def main(arguments: Sequence[str]) -> int:
    """Start the job, or write or print its file; return the exit code.

    Raises:
        ConfigurationError: If the job could not work as asked for.
        LaunchError: If sky cannot be called.
    """
    flags = SKY.parse(arguments)
    job = describe(SKY, flags, name=flags.name, folder=Path.cwd())
    if job.gpus_per_node and job.gpu_type is None:
        raise ConfigurationError(
            f"--gpus-per-node is {flags.gpus_per_node!r}, but SkyPilot must know which GPUs: "
            f"TYPE:{job.gpus_per_node}, as in H100:{job.gpus_per_node}. sky show-gpus lists them."
        )
    job = job.with_run_id(name=name_like(job.name))
    text = _file(job, flags, shlex.join(["envlab", "cluster", "sky", *arguments]))
    path = f"{job.name}.sky.yaml"
    return SKY.deliver(
        text,
        flags,
        path=path,
        start="sky jobs launch",
        submit=lambda: _submit(text, path),
    )


def _submit(text: str, path: str) -> int:
    write(text, Path(path))
    try:
        # It asks for confirmation before it rents anything.
        code = subprocess.run(["sky", "jobs", "launch", path]).returncode
    except OSError as error:
        raise LaunchError(f"The job could not be started: {error}.") from None
    return code if code >= 0 else 128 - code


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
    gpus = '"$SKYPILOT_NUM_GPUS_PER_NODE"'
    script = job.torchrun(
        nodes='"$SKYPILOT_NUM_NODES"',
        is_first='"$SKYPILOT_NODE_RANK" = 0',
        processes=gpus if job.gpus_per_node else str(job.processes_per_node),
        endpoint=f"\"${{SKYPILOT_NODE_IPS%%$'\\n'*}}:{PORT}\"",
        options=f'--local_addr="$({own_ip})" ',
        exec="",  # SkyPilot appends commands that wait for the bucket's uploads
    )
    values = {
        "name": job.name,
        "nodes": job.nodes,
        "resources": {name: one for name, one in resources.items() if one is not None},
        "bucket": {"name": flags.bucket, "mode": "MOUNT_CACHED"}
        | ({"store": flags.store} if flags.store else {}),
        "env": dict(pair.split("=", 1) for pair in flags.env),
    }
    texts = {name: json.dumps(value) for name, value in values.items()} | {
        "command": command,
        "extras": shlex.quote(extras),
        "script": script,
        "train": " \\\n".join(map(shlex.quote, job.train)),
    }
    return fill("sky.yaml", texts)
