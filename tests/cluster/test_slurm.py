"""``envlab cluster slurm``: its script is run for real, on one and on two "nodes"."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from envlab.distributed.program import guarded
from envlab_cluster.slurm import main
from tests.cluster.fake_slurm import JOB, PORT, FakeSlurm
from tests.cluster.pods import shellcheck
from tests.launcher import ROOT
from tests.trained import SMALL


def slurm(*arguments: str) -> int:
    return guarded(main, arguments)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    return FakeSlurm(tmp_path, monkeypatch)


@pytest.fixture
def without_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(ROOT)
    return tmp_path


def with_python(folder: Path, *lines: str) -> None:
    """Let nodes have a ``python`` that writes down its words, and then runs these lines."""
    python = folder / "bin/python"
    write_words = f"printf '%s\\0' \"$@\" >'{folder}'/words$SLURM_NODEID"
    python.write_text("\n".join(["#!/bin/sh", write_words, *lines, ""]))
    python.chmod(0o755)


def words_of(folder: Path, node: int) -> list[str]:
    return (folder / f"words{node}").read_text().split("\0")[:-1]


def end_of(fake: FakeSlurm, **place: int) -> int:
    """Run the job to its end; return its exit code."""
    launch = fake.start(**place)
    try:
        return launch.wait()
    finally:
        launch.close()


def test_two_nodes_meet_and_a_process_that_fails_fails_the_job(fake: FakeSlurm, tmp_path: Path):
    options = ["--nodes=2", "--processes-per-node=1", f"--envlab-path={tmp_path}"]
    assert slurm("--env_activate_path=", *options, "rsl_rl", *SMALL) == 0
    with_python(tmp_path, "exit 75")
    assert end_of(fake) == 75
    for node, is_host in enumerate((1, 0)):
        words = words_of(tmp_path, node)
        assert {"--nnodes=2", f"--rdzv_endpoint=localhost:{PORT}"} <= set(words)
        assert {f"--rdzv_conf=is_host={is_host}", "--requeue"} <= set(words)


def test_a_run_has_the_seed_of_its_place_in_the_array(fake: FakeSlurm, tmp_path: Path):
    options = ["--seeds=5,9", "--processes-per-node=2", f"--envlab-path={tmp_path}"]
    assert slurm("--env_activate_path=", *options, "rsl_rl", *SMALL) == 0
    assert fake.directive("array") == "0-1"
    with_python(tmp_path)
    assert end_of(fake, task=1) == 0
    words = words_of(tmp_path, 0)
    assert words[:4] == ["-m", "envlab.distributed.torchrun", "--nnodes=1", "--nproc_per_node=2"]
    train = words[words.index("train") :]
    assert train[:2] == ["train", "rsl_rl"]
    assert train[-2:] == ["--seed=9", "--run_name=seed9"]


def test_a_job_is_submitted_with_a_folder_for_its_log(fake: FakeSlurm, tmp_path: Path, capsys):
    with contextlib.chdir(tmp_path):
        assert slurm("--nodes=2", "--gpus-per-node=a100:4", "rsl_rl", *SMALL) == 0
    output = capsys.readouterr().out
    assert f"Submitted job {JOB}: 2 x 4 processes." in output
    assert f"scancel {JOB}" in output
    assert (tmp_path / "logs/slurm").is_dir()
    assert fake.directive("output") == "logs/slurm/%x-%j.out"
    assert fake.directive("job-name") == "Isaac-Cartpole-v0"


def test_a_refusal_by_sbatch_is_reported(fake: FakeSlurm, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FAKE_SBATCH_REFUSES", "sbatch: error: invalid partition specified: gpu")
    with contextlib.chdir(tmp_path):
        assert slurm("--partition=gpu", "rsl_rl", *SMALL) == 2
    assert "sbatch refused the job: sbatch: error: invalid partition" in capsys.readouterr().err


def test_nothing_is_submitted_on_a_dry_run_or_to_a_file(fake: FakeSlurm, tmp_path: Path, capsys):
    target = tmp_path / "job.sh"
    with contextlib.chdir(tmp_path):
        assert slurm("--dry_run", "rsl_rl", *SMALL) == 0
        printed = capsys.readouterr().out
        assert printed.startswith("#!/bin/bash\n")
        assert slurm("--output=-", "rsl_rl", *SMALL) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if "Made by" not in line]
        assert lines == [line for line in printed.splitlines() if "Made by" not in line]
        assert slurm(f"--output={target}", "rsl_rl", *SMALL) == 0
        assert slurm(f"--output={target}", "--nodes=3", "rsl_rl", *SMALL) == 0  # over its own file
    assert "--nodes=3" in target.read_text()
    assert not fake.script.exists()
    assert not {"logs", "-"} & {path.name for path in tmp_path.iterdir()}


def test_the_script_is_printed_where_there_is_no_sbatch(without_slurm: Path, capsys):
    assert slurm("rsl_rl", *SMALL) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("#!/bin/bash\n# Made by: envlab cluster slurm rsl_rl")
    assert "no sbatch here" in printed.err


ODD = ['agent.experiment_name="it\'s"', "+env.note='a \"b\" $(echo c) `d` @train@ ${e}'"]
CASES = {
    "least": ["--env_activate_path="],
    "odd words": ["--", *ODD],
    "all": [
        *("--nodes=2", "--gpus-per-node=a100:8", "--partition=a,b", "--account=x", "--qos=high"),
        *("--time=2-12:30", "--cpus-per-task=16", "--mem=64G", "--constraint=a&b|[c*2]"),
        *("--exclude=n[1-3],n7", "--job-name=my job", "--seeds=1,2,3", "--max-restarts=3"),
        *("--sbatch=--exclusive", "--sbatch", "--mail-type=END"),
        *("--srun", "--container-image=x.sqsh"),
        *("--env-activate-path=/srv/my env/activate", "--notice-s=300", "--no-requeue"),
    ],
}


def script_of(capsys: pytest.CaptureFixture[str], case: list[str]) -> str:
    where = case.index("--") if "--" in case else len(case)
    options, words = case[:where], case[where + 1 :]
    assert slurm("--dry_run", *options, "rsl_rl", *SMALL, *words) == 0
    return capsys.readouterr().out


@pytest.mark.tools("shellcheck")
@pytest.mark.parametrize("case", CASES)
def test_shellcheck_finds_nothing_in_the_script(case: str, capsys):
    shellcheck(script_of(capsys, CASES[case]))


def test_options_of_srun_are_words_and_no_code(capsys, tmp_path: Path):
    odd = ["--comment=it's two words", "--x=$(touch pwned)", "--y=`touch pwned`; touch pwned"]
    script = script_of(capsys, [word for one in odd for word in ("--srun", one)])
    (tmp_path / "job.sh").write_text(script)
    done = subprocess.run(["bash", "-n", "job.sh"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in script.splitlines() if "--ntasks-per-node=1 --label" in line]
    words = shlex.split(line.removesuffix(" bash -c '"))
    assert [word for word in words if word in odd] == odd


def test_every_option_reaches_slurm(capsys):
    lines = script_of(capsys, CASES["all"]).splitlines()
    directives = {line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")}
    assert directives >= {
        *("--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=a100:8", "--partition=a,b"),
        *("--account=x", "--qos=high", "--time=2-12:30", "--cpus-per-task=16", "--mem=64G"),
        *('--constraint="a&b|[c*2]"', '--exclude="n[1-3],n7"', '--job-name="my job"'),
        *("--array=0-2", "--exclusive", "--mail-type=END", "--signal=USR1@300", "--no-requeue"),
    }
    text = "\n".join(lines)
    assert "--cpus-per-task=16 --container-image=x.sqsh bash -c" in text
    assert "source '/srv/my env/activate'" in text
    assert "--nproc_per_node=8 --max_restarts=3" in text
    assert "--shutdown_timeout=250" in text
    assert "    --requeue" not in lines


def test_odd_words_arrive_as_they_were_given(capsys):
    """Through the shell that runs the script, and the one on each node."""
    script = script_of(capsys, CASES["odd words"])
    body = script[script.index("train=(") : script.index("# torchrun would")]
    shell = f'{body}bash -c \'printf "%s\\0" "$@"\' node "${{train[@]}}"'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[1:-1] == [*SMALL, *ODD, "--distributed", "--requeue"]
    assert shlex.split(script.splitlines()[1].removeprefix("# Made by: "))[-1] == ODD[-1]


def test_bad_input_is_one_sentence(without_slurm: Path, capsys):
    experiment = str(ROOT / "source/projects/tutorials/distributed_objectnav_tutorial.py")
    for words, sentence in (
        (["--partition=a\n#SBATCH --uid=0", "rsl_rl", *SMALL], "holds a line break"),
        (["--nodes=2", "ddppo", experiment], "distributed_nodes is 1, but 2 nodes were asked "),
    ):
        assert slurm(*words) == 2
        output = capsys.readouterr()
        assert sentence in output.err
        assert output.err.startswith("error: ")
        assert output.out == ""
