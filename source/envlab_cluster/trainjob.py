"""``envlab cluster trainjob``: a training run as a TrainJob of Kubeflow Trainer on Kubernetes.

The fields are those of ``trainer.kubeflow.org/v1alpha1`` as of Kubeflow Trainer 2.3.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Sequence

from envlab.errors import ConfigurationError
from envlab_cluster.job import Job, describe
from envlab_cluster.scheduler import (
    COUNT,
    NAME,
    RETRIED,
    Flag,
    Kind,
    Scheduler,
    fill,
    name_like,
    submit_by,
    variable,
)

_LEGACY = """PyTorchJob belongs to Training Operator v1, which Kubeflow Trainer has replaced, and
envlab writes no file for it. To write one by hand, print a TrainJob with --dry_run and carry over:

  image, command, args, env       to the container "pytorch" of each of pytorchReplicaSpecs
  numNodes                        to one Master and numNodes - 1 Workers
  resources, volumes, grace       to the same fields of each replica's pod template
  $PET_NNODES, $PET_NODE_RANK     are $WORLD_SIZE and $RANK there
  $PET_MASTER_ADDR and _PORT      are $MASTER_ADDR and $MASTER_PORT there
  $PET_NPROC_PER_NODE             is nprocPerNode, or a number
  exit code 75                    is retried with restartPolicy: OnFailure"""
IMAGE = Kind(
    r"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
    r"(?P<tag>(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?)",
    "which is not an image name. Name one with its tag, as in registry.example:5000/envlab:1",
)
"""A registry, a repository, a tag, a digest: github.com/distribution/reference, regexp.go."""
SIZE = Kind(r"(?=.*[1-9])[0-9]+(\.[0-9]+)?([KMGT]i?)?", "but must be a size such as 64Gi")


def existing(resource: str, pattern: str = r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?") -> Kind:
    """Return the kind of the name of an object that must exist in the cluster."""
    return Kind(
        pattern,
        "which Kubernetes takes for no name: small letters, digits and hyphens, between letters or "
        f"digits. kubectl get {resource} lists those it has",
    )


NAMESPACE = existing("namespaces", "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
TRAINJOB = Scheduler(
    name="trainjob",
    program="kubectl",
    description="Train on Kubernetes, as a TrainJob of Kubeflow Trainer 2.3 or newer.",
    example="--gpus-per-node 4 --volume envlab-logs --image envlab:cuda",
    flags=(
        Flag(
            "volume",
            "CLAIM",
            "persistent volume claim for logs/, which all nodes mount",
            existing("pvc"),
            missing="the persistent volume claim for logs/, without which a restarted pod would "
            "begin from scratch. kubectl get pvc lists them",
        ),
        Flag("image", "IMAGE:TAG", "default: envlab:cuda, or envlab:cpu without GPUs", IMAGE),
        Flag("name", "NAME", "name of the job (default: the task's)", NAME),
        Flag("namespace", "NAME", "namespace (default: kubectl's)", NAMESPACE),
        Flag("cpus_per_node", "N", "CPU cores a node", COUNT),
        Flag("mem", "SIZE", "memory a node, such as 64Gi", SIZE),
        Flag("env", "K=V", "a variable; repeat it", variable("PET_"), repeats=True),
        Flag("runtime", "NAME", "default: torch-distributed", existing("clustertrainingruntimes")),
        Flag("own_runtime", None, "also write a runtime, which retries only where that helps"),
        Flag("legacy", None, "describe how a PyTorchJob differs, without writing a file"),
    ),
)


def main(arguments: Sequence[str]) -> int:
    """Submit the job, or write or print its file; return the exit code.

    Raises:
        ConfigurationError: If the job could not work as asked for.
        LaunchError: If kubectl refuses it.
    """
    flags = TRAINJOB.parse(arguments)
    if flags.legacy:
        print(_LEGACY)
        return 0
    if flags.own_runtime and flags.runtime:
        raise ConfigurationError(
            f"--runtime {flags.runtime} has no effect with --own-runtime, which writes another "
            "one. Leave one of them out."
        )
    job = describe(TRAINJOB, flags, name=flags.name, folder=None)
    _check_tag(flags.image)
    job = job.with_run_id(name=name_like(job.name))
    text = _file(job, flags, shlex.join(["envlab", "cluster", "trainjob", *arguments]))
    kubectl = ["kubectl", *(["--namespace", flags.namespace] if flags.namespace else [])]
    return TRAINJOB.deliver(
        text,
        flags,
        path=f"{job.name}.yaml",
        start=shlex.join([*kubectl, "apply", "--filename"]),
        submit=lambda: _submit(text, job, kubectl),
    )


def _check_tag(image: str | None) -> None:
    match = re.fullmatch(IMAGE.pattern, image or "")
    if match is not None and not match["tag"]:
        raise ConfigurationError(
            f"--image is {image!r}, which has no tag, so that a node which is started later "
            f"may run different code. Name one, as in {image}:1, or a digest."
        )


def _file(job: Job, flags: argparse.Namespace, command: str) -> str:
    metadata = {"name": job.name} | ({"namespace": flags.namespace} if flags.namespace else {})
    runtime = {"name": flags.runtime or "torch-distributed", "kind": "ClusterTrainingRuntime"}
    if flags.own_runtime:
        runtime = {"name": job.name, "kind": "TrainingRuntime"}
    amounts = {
        "cpu": flags.cpus_per_node,
        "memory": flags.mem,
        "nvidia.com/gpu": job.gpus_per_node or None,
    }
    values = {
        "metadata": metadata,
        "runtime": {"apiGroup": "trainer.kubeflow.org", **runtime},
        "image": flags.image or ("envlab:cuda" if job.gpus_per_node else "envlab:cpu"),
        "nodes": job.nodes,
        "processes": job.processes_per_node,
        "resources": {name: str(one) for name, one in amounts.items() if one is not None},
        "env": [
            {"name": name, "value": _literal(value)}
            for name, value in (pair.split("=", 1) for pair in flags.env)
        ],
        "notice_s": job.notice_s,
        "selector": {"nvidia.com/gpu.product": job.gpu_type} if job.gpu_type else {},
        "volume": flags.volume,
        "retried": RETRIED,
    }
    script = job.torchrun(
        nodes='"$PET_NNODES"',
        is_first='"$PET_NODE_RANK" = 0',
        processes='"$PET_NPROC_PER_NODE"',
        endpoint='"$PET_MASTER_ADDR:$PET_MASTER_PORT"',
    )
    texts = {name: json.dumps(value) for name, value in values.items()} | {
        "command": command,
        "script": script,
        "args": "\n".join(f"- {json.dumps(_literal(word))}" for word in job.train),
    }
    names = (*(["training_runtime.yaml"] if flags.own_runtime else []), "trainjob.yaml")
    return "".join(fill(name, texts) for name in names)


def _literal(word: str) -> str:
    """Return a word with ``$(NAME)`` escaped for Kubernetes, which reads ``$$`` as $."""
    return word.replace("$", "$$")


def _submit(text: str, job: Job, kubectl: list[str]) -> int:
    """Hand the file to kubectl, and print how to watch and stop the job."""
    submit_by([*kubectl, "apply", "--filename", "-"], text)
    words, pods = shlex.join(kubectl), f"--selector=jobset.sigs.k8s.io/jobset-name={job.name}"
    print(f"Submitted {job.name}: {job.size}.")
    print(f"  look   {words} get pods {pods}; {words} logs --follow {pods}")
    print(f"  stop   {words} delete trainjob {job.name}")
    return 0
