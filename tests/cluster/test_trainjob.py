"""``envlab cluster trainjob``: its file is checked by Kubeflow's own models, and started."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from envlab.distributed.program import guarded
from envlab_cluster.trainjob import main
from tests.cluster.pods import shellcheck, words_of_torchrun
from tests.launcher import ROOT
from tests.trained import SMALL

ODD = ['agent.experiment_name="it\'s"', "+env.note='a \"b\" $(HOME) $$(c) `d` @train@ ${e}'"]
ALL = [
    *("--nodes=2", "--gpus-per-node=NVIDIA-A100-SXM4-80GB:8", "--namespace=rl", "--name=ant"),
    *("--image=registry.example:5000/envlab:1.2", "--cpus-per-node=32", "--mem=64Gi"),
    *("--env=WANDB_MODE=offline", "--env", "NOTE=$(HOME)", "--notice-s=300", "--max-restarts=1"),
]


def trainjob(*arguments: str) -> int:
    return guarded(main, arguments)


def documents(capsys: pytest.CaptureFixture[str], *options: str, words=(*SMALL,)) -> list[Any]:
    assert trainjob("--dry_run", "--volume=logs", *options, "rsl_rl", *words) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def replaced_by_kubernetes(text: str, variables: dict[str, str]) -> str:
    """Replace references like Kubernetes in ``command``, ``args`` and values of ``env``.

    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1: ``$(NAME)`` where
    there is such a variable, and ``$$`` by ``$``.
    """
    pattern = re.compile(r"\$(\$|\((\w+)\))")
    return pattern.sub(
        lambda match: "$" if match[1] == "$" else variables.get(match[2], match[0]), text
    )


def node_command(document: dict[str, Any], variables: dict[str, str]) -> list[str]:
    trainer = document["spec"]["trainer"]
    words = [*trainer["command"], *trainer["args"]]
    return [replaced_by_kubernetes(word, variables) for word in words]


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    (patch,) = job["spec"]["runtimePatches"]
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    return node["template"]["spec"]["template"]["spec"]


def variables_of(document: dict[str, Any], node: int) -> dict[str, str]:
    """Return Trainer 2.2's variables in a pod (pkg/runtime/framework/plugins/torch/torch.go)."""
    trainer = document["spec"]["trainer"]
    return {
        "PET_NNODES": str(trainer["numNodes"]),
        "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
        "PET_NODE_RANK": str(node),
        "PET_MASTER_ADDR": "localhost",
        "PET_MASTER_PORT": "29500",
    }


@pytest.mark.parametrize("options", [[], ALL, [*ALL, "--own-runtime"]], ids=["least", "all", "own"])
def test_trainers_models_know_every_field(options: list[str], capsys):
    """They drop unknown fields, so their output is compared with the input."""
    from kubeflow_trainer_api import models  # here, as it takes each worker most of a second

    *runtimes, job = documents(capsys, *options)
    for document in runtimes:
        model = models.TrainerV1alpha1TrainingRuntime
        assert model.from_dict(document).to_dict() == document
    assert models.TrainerV1alpha1TrainJob.from_dict(job).to_dict() == job
    assert len(runtimes) == options.count("--own-runtime")


def test_every_option_is_in_the_file(capsys):
    (job,) = documents(capsys, *ALL)
    assert job["metadata"] == {"name": "ant", "namespace": "rl"}
    trainer = job["spec"]["trainer"]
    assert trainer["image"] == "registry.example:5000/envlab:1.2"
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 8)
    resources = {"cpu": "32", "memory": "64Gi", "nvidia.com/gpu": "8"}
    assert trainer["resourcesPerNode"] == {"requests": resources, "limits": resources}
    values = {
        one["name"]: replaced_by_kubernetes(one["value"], {"HOME": "/"}) for one in trainer["env"]
    }
    assert values == {"WANDB_MODE": "offline", "NOTE": "$(HOME)"}
    assert {"--max_restarts=1", "--shutdown_timeout=250"} <= set(trainer["command"][2].split())
    pod = pod_of(job)
    assert pod["terminationGracePeriodSeconds"] == 300
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "logs"}


def test_a_runtime_of_its_own_retries_saved_runs(capsys):
    runtime, job = documents(capsys, "--own-runtime")
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    _, retried, given_up = node["template"]["spec"]["podFailurePolicy"]["rules"]
    assert retried["action"] == "Count"
    assert 75 in retried["onExitCodes"]["values"]
    assert given_up == {
        "action": "FailJob",
        "onExitCodes": {**retried["onExitCodes"], "operator": "NotIn"},
    }


def test_odd_words_arrive_as_they_were_given_and_the_first_pod_hosts_the_meeting(
    capsys, folder: Path
):
    (job,) = documents(capsys, "--nodes=2", words=[*SMALL, *ODD])
    for node, is_host in enumerate((1, 0)):
        variables = variables_of(job, node) | {"HOME": "/root", "c": "d"}
        words = words_of_torchrun(node_command(job, variables), variables, folder)
        assert {"--nnodes=2", "--nproc_per_node=1"} <= set(words)
        assert {"--rdzv_endpoint=localhost:29500", f"--rdzv_conf=is_host={is_host}"} <= set(words)
        train = words[words.index("train") :]
        assert train[: 2 + len(SMALL) + len(ODD)] == ["train", "rsl_rl", *SMALL, *ODD]
        assert train[-2] == "--distributed"
        assert train[-1].startswith("--run_id=isaac-cartpole-v0-")


@pytest.mark.tools("shellcheck")
def test_shellcheck_finds_nothing_in_the_script(capsys):
    (job,) = documents(capsys, *ALL)
    shellcheck("#!/bin/bash\n" + job["spec"]["trainer"]["command"][2])


def test_the_file_is_written_where_there_is_no_kubectl(folder: Path, capsys):
    assert trainjob("--volume=logs", "rsl_rl", *SMALL) == 0
    errors = capsys.readouterr().err
    assert errors.startswith("There is no kubectl here.\nWrote isaac-cartpole-v0.yaml.")
    assert "kubectl apply --filename isaac-cartpole-v0.yaml" in errors
    assert (folder / "isaac-cartpole-v0.yaml").read_text().startswith("# Made by: envlab cluster")
    (folder / "mine.yaml").write_text("mine")
    assert trainjob("--volume=logs", "--output=mine.yaml", "rsl_rl", *SMALL) == 2
    assert (folder / "mine.yaml").read_text() == "mine"


@pytest.mark.parametrize("code", [0, 1])
def test_kubectl_is_given_the_file(code: int, folder: Path, capsys):
    kubectl = folder / "bin/kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(
        '#!/bin/sh\necho "$@" >words\n/bin/cat >applied.yaml\n'
        f"echo 'error: no' >&2\nexit {code}\n"
    )
    kubectl.chmod(0o755)
    status = trainjob("--volume=logs", "--namespace=rl", "--nodes=2", "rsl_rl", *SMALL)
    output = capsys.readouterr()
    assert (folder / "words").read_text().split() == "--namespace rl apply --filename -".split()
    assert yaml.safe_load((folder / "applied.yaml").read_text())["kind"] == "TrainJob"
    if code == 0:
        assert status == 0
        assert "Submitted isaac-cartpole-v0: 2 x 1 processes." in output.out
        assert "delete trainjob isaac-cartpole-v0" in output.out
    else:
        assert status == 2
        assert "kubectl refused the job: error: no" in output.err


def test_legacy_prints_a_pytorchjob(capsys):
    assert trainjob("--legacy") == 0
    assert "pytorchReplicaSpecs" in capsys.readouterr().out


def test_existing_objects_may_have_any_name_of_kubernetes(capsys):
    (job,) = documents(capsys, "--volume=1.logs", f"--namespace={'n' * 60}", "--runtime=torch.2")
    assert job["metadata"]["namespace"] == "n" * 60
    assert job["spec"]["runtimeRef"]["name"] == "torch.2"
    assert pod_of(job)["volumes"][0]["persistentVolumeClaim"] == {"claimName": "1.logs"}


def test_the_image_has_its_runs_where_the_volume_is(capsys):
    """docker/Dockerfile defines the folder, and the user who writes into it."""
    text = (ROOT / "docker/Dockerfile").read_text()
    (job,) = documents(capsys)
    pod = pod_of(job)
    mounted_at = pod["containers"][0]["volumeMounts"][0]["mountPath"]
    assert f"install -d -o envlab -g envlab /envlab {mounted_at}" in text
    assert f"USER {pod['securityContext']['fsGroup']}\n" in text
