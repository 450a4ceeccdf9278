"""Launch, attend, observe and stop, on real ssh servers with a torchrun that only waits."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest

from envlab import cli
from envlab_cluster.node_script import RANK_PREFIX, node_script
from envlab_cluster.state import find_run, read_run
from tests.cluster.conftest import Commander
from tests.cluster.hosts import wait_for
from tests.launcher import Launch

LIBRARY = ["rsl_rl", "--task=Isaac-Cartpole-v0"]


def test_a_run_on_three_hosts_from_launch_to_kill(command: Commander, tree: Path):
    output = command.launch(tree, "--nproc_per_node=2")
    run = find_run(None)
    assert f"Run {run.id} trains on host0, host1, host2." in output
    # One rendezvous, which the first host keeps; one name by which the run is found again.
    words = [command.words_of(number) for number in range(3)]
    same = {"--nnodes=3", "--nproc_per_node=2", "--distributed", f"--run_id={run.id}"}
    assert all({*same, f"--rdzv_endpoint={run.endpoint}"} <= set(one) for one in words)
    (name,) = {word for one in words for word in one if word.startswith("--rdzv_id=")}
    assert re.fullmatch(rf"--rdzv_id={run.id}-[0-9a-f]{{16}}", name)  # which cannot be guessed
    hosting = [next(word for word in one if word.startswith("--rdzv_conf")) for one in words]
    assert ["is_host=true" in one for one in hosting] == [True, False, False]
    # A later terminal finds processes by number and start, each in its own session.
    saved = read_run(run.file)
    for node in saved.nodes:
        assert node.pid is not None
        assert os.getsid(node.pid) == node.pid
        ticks = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()[19]
        assert ticks == node.ticks
    output = command("status")
    assert output.count("running") == output.count("[rank 0] training") == 3
    directory = command.cluster.hosts[0].path / "logs/rsl_rl/cartpole/today"
    directory.mkdir(parents=True)
    (directory / "run.json").write_text(f'{{"name": "{run.id}"}}')
    output = command("kill", "--yes", "--fetch", cwd=tree)
    assert output.count("ended, no process is left") == 3
    assert "Run directory: logs/rsl_rl/cartpole/today" in output
    assert (tree / "logs/rsl_rl/cartpole/today/run.json").is_file()
    assert command.cluster.living() == {}
    assert not run.file.exists()


def test_later_launches_send_changes_and_runs_that_ignore_term_are_killed(
    command: Commander, tree: Path
):
    sent = []
    for text in ("one", "one", "two"):
        (tree / "small.txt").write_text(text)
        if text == "two":
            (command.cluster.hosts[0].home / "stubborn").touch()
        output = command.launch(tree, "--runs_on=host0")
        sent.append(re.findall(r"host0: (sent \d+ files|has this code already)", output))
        output = command("kill", "--yes", "--grace_s=1")
    assert "host0: did not end in time and was killed, no process is left" in output
    assert sent == [["sent 4 files"], ["has this code already"], ["sent 1 files"]]
    copies = sorted(command.cluster.hosts[0].path.glob("snapshots/*/large.txt"))
    assert len(copies) == 2
    assert os.path.samefile(*copies)
    assert not list(command.cluster.hosts[0].path.glob("snapshots/*/a.secret"))


def test_a_stale_run_is_recognised(command: Commander, tree: Path):
    command.launch(tree, "--runs_on=host0")
    (node,) = find_run(None).nodes
    assert node.pid is not None
    os.killpg(node.pid, signal.SIGKILL)
    wait_for(lambda: not command.cluster.living())
    assert " ended " in command("status", "--all")
    output = command("kill", ends=2)  # there is no terminal to ask
    assert f"whether to stop run {find_run(None).id} on host0: give --yes" in output
    output = command("kill", "--yes")
    assert output.count("was not running") == 1


def test_a_host_out_of_reach_keeps_the_state(command: Commander, tree: Path):
    command.launch(tree, "--runs_on=host0,host1")
    run = find_run(None)
    command.cluster.stop(command.cluster.hosts[1])
    output = command("status", ends=1)
    assert re.search(r"^host1 .* unreachable", output, re.MULTILINE), output
    output = command("kill", "--yes", ends=1)
    assert "host0: ended, no process is left" in output
    assert "Host host1: nothing listens at its ssh port" in output
    assert run.file.exists()
    command.cluster.serve(command.cluster.hosts[1])
    command("kill", "--yes")
    assert not run.file.exists()


def attended(command: Commander, tree: Path, activate: Path) -> tuple[Launch, int]:
    """Start an attended launch on a separate terminal; return it and the terminal's other end."""
    leader, follower = pty.openpty()
    words = [f"--env_activate_path={activate}", "--runs_on=host0,host1", *LIBRARY]
    launch = command.cluster.start("launch", *words, cwd=tree, terminal=os.ttyname(follower))
    launch.wait_until(lambda: launch.output.count("training") == 2)
    os.kill(launch.process.pid, signal.SIGINT)
    launch.wait_until(lambda: "[d/s]" in launch.output)
    os.close(follower)
    return launch, leader


def test_ctrl_c_can_stop_it_everywhere(command: Commander, tree: Path, fake_environment: Path):
    launch, terminal = attended(command, tree, fake_environment)
    os.write(terminal, b"s\n")
    assert launch.wait() == 130
    os.close(terminal)
    assert launch.output.count("ended, no process is left") == 2
    assert command.cluster.living() == {}


def test_a_run_that_was_left_alone_can_be_followed_to_its_end(
    command: Commander, tree: Path, fake_environment: Path
):
    launch, terminal = attended(command, tree, fake_environment)
    os.write(terminal, b"d\n")
    assert launch.wait() == 130
    os.close(terminal)
    assert launch.living() == {}
    assert command.cluster.living() != {}
    following = command.cluster.start("status", "--follow")
    following.wait_until(lambda: following.output.count("training") == 2)
    for host in command.cluster.hosts:
        (host.home / "enough").touch()
    assert following.wait() == 0, following.output
    for name in ("host0", "host1"):
        lines = [line for line in following.output.splitlines() if line.startswith(f"{name} | ")]
        assert lines == [f"{name} | [rank 0] training", f"{name} | [rank 0] trained"]
    (state,) = command.cluster.state.glob("envlab/cluster/*.json")
    values = json.loads(state.read_text())
    assert (values["status"], [node["exit_code"] for node in values["nodes"]]) == ("ended", [0, 0])


def test_commands_run_on_all_hosts_at_once(command: Commander, tmp_path: Path):
    folder = tmp_path / "begun"
    folder.mkdir()
    # Each waits until all have begun; one after the other, they would time out.
    count = f'[ "$(ls "{folder}" | wc -l)" = 3 ]'
    all_begun = f'touch "{folder}/${{HOME##*/}}"; until {count}; do sleep 0.05; done'
    output = command("command", f'{all_begun}; echo "it\'s $HOME" >&2; exit 4', ends=4)
    for host in command.cluster.hosts:
        assert f"== {host.name}: exit code 4\nit's {host.home}\n" in output
    output = command(
        "command", "--runs_on=host1", "--timeout_s=1", "echo before; sleep 60", ends=124
    )
    assert "== host1: took more than 1 s, and was ended (exit code 124)\nbefore\n" in output
    output = command("command", "--runs_on=host1")
    assert re.search(r"load .* on \d+ cores|NVIDIA", output)


def test_setup_runs_a_script_detached_and_logs_there(command: Commander, tmp_path: Path):
    script = tmp_path / "configure.sh"
    script.write_text('echo "in $ENVLAB_PATH"; [ ! -e "$HOME/broken" ] || exit 5; echo DONE\n')
    output = command("setup", f"--config_script={script}", "--wait")
    for host in command.cluster.hosts:
        assert (host.path / "setup/log.txt").read_text() == f"in {host.path}\nDONE\n"
        assert f"{host.name}: ready" in output
    (command.cluster.hosts[2].home / "broken").touch()
    output = command("setup", f"--config_script={script}", "--wait", ends=1)
    assert "host2: failed with exit code 5" in output
    assert "host1: ready" in output


def test_a_dry_run_changes_nothing_on_the_hosts(command: Commander, tree: Path):
    for verb in ("setup", "launch", "command"):
        more = LIBRARY if verb == "launch" else []
        output = command(verb, "--dry_run", *more, cwd=tree)
        assert all(host.name in output for host in command.cluster.hosts)
    assert not [path for host in command.cluster.hosts for path in host.home.iterdir()]


def test_every_verb_has_an_example(capsys: pytest.CaptureFixture):
    for verb in ("setup", "launch", "status", "command", "kill", "slurm", "trainjob", "sky"):
        with pytest.raises(SystemExit) as ended:
            cli.main(["cluster", verb, "--help"])
        assert ended.value.code == 0
        text = capsys.readouterr().out
        assert re.search(rf"\n  envlab cluster {verb} ", text), text
        assert "--dry_run" in text


@pytest.mark.tools("shellcheck")
def test_scripts_are_clean(tmp_path: Path):
    file = tmp_path / "run.sh"
    text = node_script(
        title="it's\n\"a $(title)",
        cwd="/a folder of 'mine'",
        run_folder="/runs/$HOME",
        activate="/it's/activate",
        exports={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": RANK_PREFIX, "A": '`b` "c"'},
        command=["python", "-m", "x", "--y=$Z", "a b.py", '{"a": "it\'s"}', ""],
    )
    file.write_text(text)
    remote = Path(__file__).parents[2] / "source/envlab_cluster/remote"
    words = ["shellcheck", file, *remote.glob("*.sh")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
