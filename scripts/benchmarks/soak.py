"""Kill a random rank at random moments while a task trains; check that no progress is lost.

    python scripts/benchmarks/soak.py --folder /tmp/soak

torchrun restarts the ranks, and the run resumes from its last checkpoint. At the end the launch is
sent SIGTERM, which saves and ends it. Then it checks that each restart began at the newest
checkpoint, that the curve has every iteration once, that every checkpoint can be loaded, that no
audit failed and no process is left, and that the first iterations are those of an unbroken run,
number by number. The exit code is 0 if all of that holds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from envlab.distributed.checkpoint import load_checkpoint
from envlab.distributed.processes import state_of
from envlab.errors import CheckpointError
from envlab.run.records import METRICS, Records

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / "scripts/reinforcement_learning/rsl_rl/train.py"
TIMES = ("wall_s", "fps", "collect_s", "learn_s", "reduce_s")
"""Fields that differ between two equal runs."""
RECOVERY_DEADLINE_S = 300.0
"""Time without an iteration after a kill, after which a launch counts as hung."""


@dataclass
class Kill:
    """One killed rank, and the run's recovery."""

    rank: int
    signal: str
    at_s: float
    """Seconds since the start."""
    iteration: int
    """Iterations done."""
    newest: int
    """Iteration of the newest checkpoint."""
    recovery_s: float = 0.0
    """Seconds until an iteration was completed again."""


@dataclass
class Soak:
    """Results of a soak."""

    kills: list[Kill] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def main() -> int:
    """Run the soak, print its summary and write it as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the runs go")
    parser.add_argument("--task", default="Isaac-Ant-v0")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--num_envs", type=int, default=64, help="per process")
    parser.add_argument("--mean_s", type=float, default=40.0, help="mean time between two kills")
    parser.add_argument("--signals", nargs="+", default=["KILL"], choices=("KILL", "STOP"))
    parser.add_argument("--reference", type=int, default=100, help="iterations to compare")
    parser.add_argument("--seed", type=int, default=0, help="of the kills")
    parser.add_argument("overrides", nargs="*", help="flags and overrides for train.py, after --")
    flags = parser.parse_args()
    folder = flags.folder / "killed"
    folder.mkdir(parents=True)
    soak = Soak()
    launch = subprocess.Popen(
        command(flags, "--max_iterations=1000000"),
        cwd=folder,
        stdout=(folder / "output.txt").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        run = torment(launch, folder, flags, soak)
    finally:
        kill_tree(launch)
    check(run, folder, soak)
    compare(run, flags, soak)
    report(flags, soak)
    return 1 if soak.problems else 0


def command(flags: argparse.Namespace, *more: str) -> list[str]:
    """Return the command that trains on all ranks, and restarts them as often as needed."""
    launcher = ["--nnodes=1", f"--nproc_per_node={flags.processes}", "--max_restarts=100000"]
    endpoint = ["--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:0", "--shutdown_timeout=60"]
    train = [str(TRAIN), f"--task={flags.task}", "--headless", "--distributed", "--device=cpu"]
    sizes = [f"--num_envs={flags.num_envs}", "agent.save_interval=10", "agent.audit_interval=5"]
    python = [sys.executable, "-m", "torch.distributed.run"]
    return [*python, *launcher, *endpoint, *train, *sizes, *flags.overrides, *more]


def torment(
    launch: subprocess.Popen[bytes], folder: Path, flags: argparse.Namespace, soak: Soak
) -> Path:
    """Kill ranks until time is up, then end the launch; return the run directory."""
    random.seed(flags.seed)
    wait_for(lambda: list(folder.glob("logs/*/*/*/metrics.jsonl")), launch)
    (run,) = (path.parent for path in folder.glob("logs/*/*/*/run.json"))
    begin = time.monotonic()
    while True:
        pause = min(5.0 + random.expovariate(1.0 / flags.mean_s), 5.0 * flags.mean_s)
        if time.monotonic() - begin + pause > 60.0 * flags.minutes:
            break
        time.sleep(pause)
        rank, name = random.randrange(flags.processes), random.choice(flags.signals)
        pids = ranks_of(launch.pid)
        if rank not in pids:
            continue  # it is just being restarted
        kill = Kill(rank, name, round(time.monotonic() - begin, 1), done(run), newest(run))
        restarts = num_restarts(run)
        os.kill(pids[rank], signal.Signals[f"SIG{name}"])
        start = time.monotonic()
        wait_for(lambda: num_restarts(run) > restarts, launch)  # noqa: B023
        at = done(run)
        wait_for(lambda: done(run) > at, launch)  # noqa: B023
        kill.recovery_s = round(time.monotonic() - start, 1)
        soak.kills.append(kill)
        print(f"{kill}", file=sys.stderr, flush=True)
    launch.send_signal(signal.SIGTERM)
    launch.wait(120.0)
    soak.facts |= {"minutes": round((time.monotonic() - begin) / 60.0, 1), "iterations": done(run)}
    left = descendants(launch.pid)
    if left:
        soak.problems.append(f"processes are left: {left}")
    return run


def check(run: Path, folder: Path, soak: Soak) -> None:
    """Check for losses."""
    manifest = json.loads((run / "run.json").read_text())
    soak.facts |= {"restarts": len(manifest.get("restarts", [])), "status": manifest["status"]}
    if manifest["status"] != "preempted":
        soak.problems.append(f"the run ended as {manifest['status']}: {manifest.get('error')}")
    iterations = [record["iteration"] for record in records(run)]
    if iterations != list(range(1, len(iterations) + 1)):
        soak.problems.append("the curve misses iterations, or has some twice")
    for kill, restart in zip(soak.kills, manifest.get("restarts", []), strict=False):
        if restart["iteration"] < kill.newest:
            soak.problems.append(f"a checkpoint was lost: {restart} after {kill}")
    if len(manifest.get("restarts", [])) != len(soak.kills):
        soak.problems.append(
            f"{len(soak.kills)} kills led to {len(manifest.get('restarts', []))} restarts"
        )
    for path in run.glob("checkpoints/*.pt"):
        try:
            load_checkpoint(path)
        except CheckpointError as error:
            soak.problems.append(str(error))
    output = (folder / "output.txt").read_text(errors="replace")
    if "diverged" in output:
        soak.problems.append("an audit failed")


def compare(run: Path, flags: argparse.Namespace, soak: Soak) -> None:
    """Train the first iterations without a kill, and compare every number."""
    killed = records(run)[: flags.reference]
    folder = flags.folder / "unbroken"
    folder.mkdir()
    subprocess.run(
        command(flags, f"--max_iterations={len(killed)}"),
        cwd=folder,
        check=True,
        stdout=(folder / "output.txt").open("wb"),
        stderr=subprocess.STDOUT,
    )
    (whole,) = (path.parent for path in folder.glob("logs/*/*/*/run.json"))
    same = [timeless(a) == timeless(b) for a, b in zip(killed, records(whole), strict=True)]
    soak.facts["equal to the unbroken run"] = f"{sum(same)} of {len(same)} iterations"
    soak.facts["kills in them"] = sum(kill.iteration < len(same) for kill in soak.kills)
    if not all(same):
        soak.problems.append(f"iteration {same.index(False) + 1} differs from the unbroken run's")


def report(flags: argparse.Namespace, soak: Soak) -> None:
    """Print the summary, and write it with all kills."""
    recoveries = sorted(kill.recovery_s for kill in soak.kills)
    soak.facts["kills"] = len(soak.kills)
    if recoveries:
        soak.facts["recovery_s"] = {
            "median": recoveries[len(recoveries) // 2],
            "longest": recoveries[-1],
        }
        lost = sorted(kill.iteration - kill.newest for kill in soak.kills)
        soak.facts["iterations done again"] = {"median": lost[len(lost) // 2], "most": lost[-1]}
    for name, value in soak.facts.items():
        print(f"{name}: {value}")
    print("problems:", *(soak.problems or ["none"]), sep="\n  ")
    (flags.folder / "soak.json").write_text(json.dumps(asdict(soak), indent=2) + "\n")


def records(run: Path) -> list[dict[str, Any]]:
    """Return the records of a run that are complete."""
    return list(Records(run / METRICS).read())


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without its times."""
    return {name: value for name, value in record.items() if name not in TIMES}


def done(run: Path) -> int:
    """Return the number of iterations done."""
    found = records(run)
    return found[-1]["iteration"] if found else 0


def newest(run: Path) -> int:
    """Return the iteration of the newest checkpoint, 0 without one."""
    names = [path.stem for path in run.glob("checkpoints/model_*.pt")]
    return max((int(name.removeprefix("model_")) for name in names), default=0)


def num_restarts(run: Path) -> int:
    """Return the number of times that the run resumed after a restart."""
    return len(json.loads((run / "run.json").read_text()).get("restarts", []))


def wait_for(condition: Callable[[], object], launch: subprocess.Popen[bytes]) -> None:
    """Wait until something holds; fail if the launch ends or hangs."""
    end = time.monotonic() + RECOVERY_DEADLINE_S
    while not condition():
        if launch.poll() is not None:
            raise SystemExit(f"the launch ended with code {launch.returncode}")
        if time.monotonic() > end:
            raise SystemExit(f"the launch hangs: nothing happened for {RECOVERY_DEADLINE_S:.0f} s")
        time.sleep(0.1)


def ranks_of(launcher: int) -> dict[int, int]:
    """Return the process ids of a launcher's ranks."""
    found: dict[int, int] = {}
    for pid in descendants(launcher):
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        ranks = [word.partition(b"=")[2] for word in variables if word.startswith(b"RANK=")]
        if ranks:
            found.setdefault(int(ranks[0]), pid)  # a rank's own children come after it
    return found


def descendants(pid: int) -> list[int]:
    """Return the running processes below a process."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process.pid for process in found if state_of(process) != "gone"]


def kill_tree(launch: subprocess.Popen[bytes]) -> None:
    """End all processes in any case."""
    for pid in [*descendants(launch.pid), launch.pid]:
        if launch.poll() is None or pid != launch.pid:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    launch.wait(30.0)


if __name__ == "__main__":
    raise SystemExit(main())
