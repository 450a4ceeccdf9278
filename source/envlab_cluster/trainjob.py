"""``envlab cluster trainjob``: a training run as a TrainJob of Kubeflow Trainer on Kubernetes.

The fields are those of ``trainer.kubeflow.org/v1alpha1`` as of Kubeflow Trainer 2.2.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from envlab.errors import ConfigurationError
from envlab.train.arguments import ArgumentParser
from envlab_cluster import job as jobs
from envlab_cluster.job import RETRIED, Job, add_flag, say

_EPILOG = """LIBRARY is rsl_rl, rl_games, skrl, ddppo, or a training script in the image; then
come its own flags and overrides. --distributed and --run_id are added to them.

  envlab cluster trainjob --nodes 2 --gpus-per-node 4 --volume envlab-logs --image envlab:cuda \\
      rsl_rl --task Isaac-Ant-v0 --max_iterations 2000

Where there is no kubectl, the file is written."""
_LEGACY = """PyTorchJob belongs to Training Operator v1, which Kubeflow Trainer has replaced, and
envlab writes no file for it. To write one by hand, print a TrainJob with --dry_run and carry over:

  image, command, args, env       to the container "pytorch" of each of pytorchReplicaSpecs
  numNodes                        to one Master and numNodes - 1 Workers
  resources, volumes, grace       to the same fields of each replica's pod template
  $PET_NNODES, $PET_NODE_RANK     are $WORLD_SIZE and $RANK there
  $PET_MASTER_ADDR and _PORT      are $MASTER_ADDR and $MASTER_PORT there
  $PET_NPROC_PER_NODE             is nprocPerNode, or a number
  exit code 75                    is retried with restartPolicy: OnFailure"""
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
    r"(?P<tag>(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?)"
)
"""A registry, a repository, a tag, a digest: github.com/distribution/reference, regexp.go."""
_SIZE = re.compile(r"(?=.*[1-9])[0-9]+(\.[0-9]+)?([KMGT]i?)?")
_EXISTING = {
    "namespace": ("namespaces", r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"),
    "volume": ("pvc", r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?"),
    "runtime": ("clustertrainingruntimes", r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?"),
}
"""What must be there already: how kubectl lists it, and what Kubernetes takes for its name."""


def main(arguments: Sequence[str]) -> int:
    """Submit the job, or write or print its file; return the exit code.

    Raises:
        ConfigurationError: If the job could not work as asked for.
        LaunchError: If kubectl refuses it.
    """
    flags = jobs.parse(_parser(), arguments)
    if flags.legacy:
        print(_LEGACY)
        return 0
    _check(flags)
    if flags.own_runtime and flags.runtime:
        raise ConfigurationError(
            f"--runtime {flags.runtime} has no effect beside --own-runtime, which writes another "
            "one. Leave one of them out."
        )
    job = jobs.describe(flags, name=flags.name, folder=None)
    job = jobs.with_run_id(job, name=jobs.name_like(job.name))
    text = _file(job, flags, shlex.join(["envlab", "cluster", "trainjob", *arguments]))
    kubectl = ["kubectl", *(["--namespace", flags.namespace] if flags.namespace else [])]
    if flags.dry_run or flags.output == jobs.STDOUT:
        print(text, end="")
    elif flags.output is not None or shutil.which("kubectl") is None:
        path = flags.output or f"{job.name}.yaml"
        if flags.output is None:
            say("There is no kubectl here.")
        jobs.write(text, Path(path))
        say(f"Submit it with: {shlex.join([*kubectl, 'apply', '--filename', path])}")
    else:
        _submit(text, job, kubectl)
    return 0


def _parser() -> ArgumentParser:
    parser = jobs.make_parser(
        "trainjob", "Train on Kubernetes, as a TrainJob of Kubeflow Trainer 2.2 or newer.", _EPILOG
    )

    def add(name: str, **kwargs: object) -> None:
        add_flag(parser, name, **kwargs)

    add("volume", metavar="CLAIM", help="persistent volume claim for logs/, which all nodes mount")
    add("image", metavar="IMAGE:TAG", help="default: envlab:cuda, or envlab:cpu without GPUs")
    add("name", metavar="NAME", help="name of the job (default: the task's)")
    add("namespace", metavar="NAME", help="namespace (default: kubectl's)")
    add("cpus_per_node", type=int, metavar="N", help="CPU cores a node")
    add("mem", metavar="SIZE", help="memory a node, such as 64Gi")
    add("env", action="append", default=[], metavar="K=V", help="a variable; repeat it")
    add("runtime", metavar="NAME", help="default: torch-distributed")
    add(
        "own_runtime",
        action="store_true",
        help="write a runtime, too, which starts a pod again only where that helps",
    )
    add("legacy", action="store_true", help="say how a PyTorchJob differs, and write nothing")
    jobs.add_flags(parser)
    return parser


def _check(flags: argparse.Namespace) -> None:
    """Refuse what Kubernetes or Trainer would refuse later, or would take amiss."""
    if not flags.volume:
        raise ConfigurationError(
            "--volume is missing: the persistent volume claim for logs/, without which a pod that "
            "is started again would begin anew. kubectl get pvc lists them."
        )
    jobs.check_name("name", flags.name)
    for name, (kind, pattern) in _EXISTING.items():
        value = getattr(flags, name)
        if value is not None and re.fullmatch(pattern, value) is None:
            raise ConfigurationError(
                f"--{name} is {value!r}, which Kubernetes takes for no name: small letters, digits "
                f"and hyphens, between letters or digits. kubectl get {kind} lists those it has."
            )
    _check_image(flags.image)
    if flags.mem is not None and _SIZE.fullmatch(flags.mem) is None:
        raise ConfigurationError(f"--mem is {flags.mem!r}, but must be a size such as 64Gi.")
    if flags.cpus_per_node is not None and flags.cpus_per_node < 1:
        raise ConfigurationError(
            f"--cpus-per-node is {flags.cpus_per_node}, but must be at least 1."
        )


def _check_image(image: str | None) -> None:
    if image is None:
        return
    match = _IMAGE.fullmatch(image)
    if match is None:
        raise ConfigurationError(
            f"--image is {image!r}, which is no image's name. Name one with its tag, as in "
            "registry.example:5000/envlab:1."
        )
    if not match["tag"]:
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
            for name, value in jobs.environment(flags.env, reserved="PET_").items()
        ],
        "notice_s": job.notice_s,
        "selector": {"nvidia.com/gpu.product": job.gpu_type} if job.gpu_type else {},
        "volume": flags.volume,
        "retried": RETRIED,
    }
    script = jobs.torchrun(
        job,
        nodes="$PET_NNODES",
        node_rank="$PET_NODE_RANK",
        processes="$PET_NPROC_PER_NODE",
        endpoint="$PET_MASTER_ADDR:$PET_MASTER_PORT",
    )
    texts = {name: json.dumps(value) for name, value in values.items()} | {
        "command": command,
        "script": script,
        "args": "\n".join(f"- {json.dumps(_literal(word))}" for word in job.train),
    }
    names = (*(["training_runtime.yaml"] if flags.own_runtime else []), "trainjob.yaml")
    return "".join(jobs.fill(name, texts) for name in names)


def _literal(word: str) -> str:
    """Return a word in which Kubernetes finds no ``$(NAME)`` to replace: it reads ``$$`` as $."""
    return word.replace("$", "$$")


def _submit(text: str, job: Job, kubectl: list[str]) -> None:
    """Hand the file to kubectl, and say how the job is watched and stopped."""
    jobs.submit([*kubectl, "apply", "--filename", "-"], text, "file")
    words, pods = shlex.join(kubectl), f"--selector=jobset.sigs.k8s.io/jobset-name={job.name}"
    print(f"Submitted {job.name}: {job.nodes} x {job.processes_per_node} processes.")
    print(f"  look   {words} get pods {pods}; {words} logs --follow {pods}")
    print(f"  stop   {words} delete trainjob {job.name}")
