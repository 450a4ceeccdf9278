"""``envlab cluster sky``: its file is checked by SkyPilot's own reader, and started."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from envlab.distributed.program import guarded
from envlab_cluster.sky import PORT, main
from tests.cluster.pods import shellcheck, words_of_torchrun
from tests.launcher import ROOT
from tests.trained import SMALL

SKY_PYTHON = ROOT / ".venv-sky/bin/python"
"""SkyPilot requires an older click than ours, so it has its own environment."""
READ = """\
import sys, sky, yaml
task = sky.Task.from_yaml_config(yaml.safe_load(sys.stdin))
print(task.name, task.num_nodes, [*task.resources][0])
"""
ODD = ['agent.experiment_name="it\'s"', "+env.note='a \"b\" $(echo c) `d` @train@ ${e}'"]
ALL = [
    *("--nodes=2", "--gpus-per-node=H100:8", "--infra=aws/us-east-1", "--name=ant", "--store=s3"),
    *("--cpus-per-node=32+", "--mem=64+", "--env=WANDB_MODE=offline", "--notice-s=300"),
]


def sky(*arguments: str) -> int:
    return guarded(main, arguments)


def file_of(capsys: pytest.CaptureFixture[str], *options: str, words=(*SMALL,)) -> dict[str, Any]:
    assert sky("--dry_run", "--bucket=my-logs", *options, "rsl_rl", *words) == 0
    return yaml.safe_load(capsys.readouterr().out)


def words_on(node: int, task: dict[str, Any], folder: Path) -> list[str]:
    """Return torchrun's words on a node, whose variables are those of SkyPilot."""
    addresses = ["127.0.0.1"] * task["num_nodes"]
    variables = {
        "SKYPILOT_NUM_NODES": str(task["num_nodes"]),
        "SKYPILOT_NODE_RANK": str(node),
        "SKYPILOT_NODE_IPS": "\n".join(addresses),
        "SKYPILOT_NUM_GPUS_PER_NODE": "1",
    }
    activate = folder / ".venv/bin/activate"
    activate.parent.mkdir(parents=True, exist_ok=True)
    activate.touch()
    (folder / "envlab-logs").mkdir(exist_ok=True)
    return words_of_torchrun(["bash", "-e", "-c", task["run"]], variables, folder)


@pytest.mark.skipif(not SKY_PYTHON.exists(), reason="needs SkyPilot: .ci/run --all")
@pytest.mark.parametrize("options", [[], ALL], ids=["least", "all"])
def test_skypilot_reads_the_file(options: list[str], capsys, tmp_path: Path):
    def read(task: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        text = yaml.safe_dump(task | {"file_mounts": {}})  # it would look for the bucket
        words = [SKY_PYTHON, "-c", READ]
        return subprocess.run(
            words, input=text, capture_output=True, text=True, cwd=ROOT, timeout=120
        )

    task = file_of(capsys, *options)
    done = read(task)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{task['name']} {task['num_nodes']} ")
    assert read({**task, "number_of_nodes": 2}).returncode != 0
    resources = {**task["resources"], "use_spots": True}
    assert read({**task, "resources": resources}).returncode != 0


def test_every_option_is_in_the_file(capsys):
    task = file_of(capsys, *ALL)
    assert (task["name"], task["num_nodes"], task["workdir"]) == ("ant", 2, ".")
    assert task["resources"] == {
        "infra": "aws/us-east-1",
        "accelerators": "H100:8",
        "cpus": "32+",
        "memory": "64+",
        "use_spot": True,
        "job_recovery": {"max_restarts_on_errors": 0, "recover_on_exit_codes": [70, 75, 143]},
    }
    assert task["envs"] == {"WANDB_MODE": "offline"}
    bucket = {"name": "my-logs", "mode": "MOUNT_CACHED", "store": "s3"}
    assert task["file_mounts"] == {"~/envlab-logs": bucket}
    assert "--shutdown_timeout=250" in task["run"]
    assert file_of(capsys, "--on-demand")["resources"]["use_spot"] is False


def test_odd_words_arrive_as_they_were_given(capsys, folder: Path):
    task = file_of(capsys, *ALL, words=[*SMALL, *ODD])
    words = words_on(1, task, folder)
    assert {"--nnodes=2", "--nproc_per_node=1", f"--rdzv_endpoint=127.0.0.1:{PORT}"} <= set(words)
    assert {"--rdzv_conf=is_host=0", "--local_addr=127.0.0.1"} <= set(words)
    assert "--rdzv_conf=is_host=1" in words_on(0, task, folder)
    train = words[words.index("train") :]
    assert train[: 2 + len(SMALL) + len(ODD)] == ["train", "rsl_rl", *SMALL, *ODD]
    assert train[-1].startswith("--run_id=ant-")


def test_the_lines_that_skypilot_appends_run_and_see_the_exit_code(capsys, folder: Path):
    """SkyPilot waits until the bucket has all files (0.14.1, sky/backends/task_codegen.py)."""
    task = file_of(capsys)
    task["run"] += f"\necho $? >'{folder}/code'\n"
    words_on(0, task, folder)
    assert (folder / "code").read_text() == "0\n"
    task["run"] = "set +e\npython() { return 75; }\n" + task["run"]
    words_on(0, task, folder)
    assert (folder / "code").read_text() == "75\n"


@pytest.mark.tools("shellcheck")
def test_shellcheck_finds_nothing_in_the_scripts(capsys):
    task = file_of(capsys, *ALL)
    for name in ("setup", "run"):
        shellcheck("#!/bin/bash\n# shellcheck disable=SC1091\n" + task[name])


def test_sky_is_given_the_file(folder: Path, capsys):
    words = ["--bucket=my-logs", "rsl_rl", *SMALL]
    assert sky(*words) == 0
    errors = capsys.readouterr().err
    assert errors.startswith("There is no sky here.\nWrote isaac-cartpole-v0.sky.yaml.")
    assert "Start it with: sky jobs launch isaac-cartpole-v0.sky.yaml" in errors
    assert yaml.safe_load((folder / "isaac-cartpole-v0.sky.yaml").read_text())["num_nodes"] == 1
    program = folder / "bin/sky"
    program.parent.mkdir()
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    assert sky(*words) == 2
    assert "error: The job could not be started: " in capsys.readouterr().err
    program.write_text('#!/bin/sh\necho "$@" >words\nexit 3\n')
    assert sky(*words) == 3
    assert (folder / "words").read_text() == "jobs launch isaac-cartpole-v0.sky.yaml\n"
