"""envlab compared with programs of its peers on the same file, in frames per CPU second.

``allenact`` trains AllenAct's MiniGrid tutorial by its own ``main.py`` and by ``--allenact``;
``slm_lab`` trains A3C on CartPole by SLM-Lab's command and by ``envlab lab run``::

    python scripts/benchmarks/compare_programs.py allenact ~/allenact --python ~/peer/bin/python
    python scripts/benchmarks/compare_programs.py slm_lab ~/SLM-Lab --python ~/peer/bin/python

It takes a peer's checkout, and a Python that has what the peer needs, and fetches nothing. Both
programs run at the same time on one core, which the system divides between them in slices of a few
milliseconds, so that other work affects both equally. (Stopping one while the other runs would be
quieter, but AllenAct gives up if its workers stop.) A block begins and ends where a program reports
its frames, and counts the CPU time of all its processes in between, without set-up.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
OURS = f"{sys.executable} -m envlab.cli"
TUTORIAL = "projects/tutorials/minigrid_tutorial.py"
BETWEEN_LOOKS_S = 0.25
# main.py of d055fc9 refers to an undefined variable.
ALLENACT = (
    "import builtins, runpy, sys; builtins.save_ckpt_at_every_host = False; "
    "sys.argv[0] = 'main.py'; runpy.run_path('allenact/main.py', run_name='__main__')"
)
SPEC = {
    "agent": {
        "name": "A3C",
        "algorithm": {
            "name": "ActorCritic",
            "action_pdtype": "default",
            "action_policy": "default",
            "explore_var_spec": None,
            "gamma": 0.99,
            "lam": 0.95,
            "num_step_returns": None,
            "entropy_coef_spec": {
                "name": "no_decay",
                "start_val": 0.01,
                "end_val": 0.01,
                "start_step": 0,
                "end_step": 0,
            },
            "val_loss_coef": 0.5,
            "training_frequency": 32,
        },
        "memory": {"name": "OnPolicyBatchReplay"},
        "net": {
            "type": "MLPNet",
            "shared": False,
            "hid_layers": [64, 64],
            "hid_layers_activation": "tanh",
            "init_fn": "orthogonal_",
            "normalize": False,
            "batch_norm": False,
            "clip_grad_val": 0.5,
            "use_same_optim": False,
            "loss_spec": {"name": "MSELoss"},
            "actor_optim_spec": {"name": "GlobalAdam", "lr": 0.001},
            "critic_optim_spec": {"name": "GlobalAdam", "lr": 0.003},
            "gpu": False,
        },
    },
    "env": {"name": "CartPole-v1", "num_envs": 4, "max_t": None, "max_frame": 100_000_000},
    "meta": {
        "distributed": "synced",
        "log_frequency": 2000,
        "eval_frequency": 2000,
        "max_session": 2,
        "max_trial": 1,
    },
}
"""SLM-Lab's ``a3c_gae_pong``, with the network and the sizes of its ``a2c_gae_cartpole``."""


@dataclass
class Program:
    """A program that trains, and its rates."""

    name: str
    command: Sequence[str]
    frames: Callable[[Path, str], int]
    """Returns its reported frames, from its folder and its output."""
    folder: Path
    """Folder to run in."""
    paths: Sequence[Path] = ()
    """Paths for its Python."""
    rates: list[float] = field(default_factory=list)
    """Frames per CPU second of each block."""


class Running:
    """A program's processes."""

    def __init__(self, program: Program, scratch: Path) -> None:
        """Start it."""
        self.program, self._scratch = program, scratch
        self._output = scratch / "output.txt"
        self._reported = 0
        self._begin: tuple[int, float] | None = None
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, program.paths)),
            "OMP_NUM_THREADS": "1",
        }
        with self._output.open("w") as output:
            self._process = psutil.Popen(
                list(program.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=program.folder,
            )

    def look(self, cpu_s: float) -> bool:
        """Check whether it has reported more frames; return whether it had reported any before.

        Args:
            cpu_s: CPU time that a block lasts, at least; 0: do not start one yet.

        Raises:
            ConfigurationError: If it has ended.
        """
        if self._process.poll() is not None:
            said = "".join(self._output.read_text().splitlines(keepends=True)[-15:])
            raise ConfigurationError(
                f"{self.program.name} ended with exit code {self._process.returncode}. Its last "
                f"words are:\n{said[-3000:]}"
            )
        spent = self._cpu_seconds()
        frames = self.program.frames(self._scratch, self._output.read_text())
        if frames > self._reported:
            self._reported = frames
            if cpu_s and self._begin is None:
                self._begin = (frames, spent)
            elif self._begin is not None and spent - self._begin[1] >= cpu_s:
                rate = (frames - self._begin[0]) / (spent - self._begin[1])
                self.program.rates.append(rate)
                self._begin = (frames, spent)
                print(f"{self.program.name}: {rate:,.0f}", file=sys.stderr, flush=True)
        return self._reported > 0

    def end(self) -> None:
        """End all its processes."""
        for one in self._processes():
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self._process.wait()

    def _processes(self) -> list[psutil.Process]:
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _cpu_seconds(self) -> float:
        """Return the CPU time of all its processes, and of those that have ended."""
        total = 0.0
        for one in self._processes():
            with suppress(psutil.NoSuchProcess):
                times = one.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total


def main(arguments: Sequence[str]) -> int:
    """Measure, and print a table; return 0."""
    parser = ArgumentParser(prog="compare_programs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("peer", choices=sorted(PEERS))
    parser.add_argument("checkout", type=Path, help="folder of the peer's repository")
    parser.add_argument("--python", type=Path, required=True, help="that has what the peer needs")
    parser.add_argument("--blocks", type=int, default=5, metavar="N", help="of each")
    parser.add_argument("--cpu_s", type=float, default=5.0, metavar="S", help="minimum time of one")
    parser.add_argument("--core", type=int, default=0, metavar="N", help="that they run on")
    flags = parser.parse_args(list(arguments))
    if not flags.checkout.is_dir():
        raise ConfigurationError(
            f"There is no folder {flags.checkout}. Give the folder of the peer's repository."
        )
    os.sched_setaffinity(0, {flags.core})
    with tempfile.TemporaryDirectory(prefix="compare_programs_") as folder, ExitStack() as stack:
        scratch = Path(folder)
        programs = PEERS[flags.peer](flags.checkout.resolve(), flags.python.absolute(), scratch)
        running = []
        for number, program in enumerate(programs):
            (own := scratch / str(number)).mkdir()
            running.append(Running(program, own))
            stack.callback(running[-1].end)
        measure(running, flags.blocks, flags.cpu_s)
    print(table(programs))
    return 0


def measure(running: Sequence[Running], blocks: int, cpu_s: float) -> None:
    """Wait until each has trained for some blocks, which begin once all of them train."""
    waiting = list(running)
    while waiting:
        waiting = [one for one in waiting if not one.look(0.0)]
        time.sleep(BETWEEN_LOOKS_S)
    while any(len(one.program.rates) < blocks for one in running):
        for one in running:
            one.look(cpu_s)
        time.sleep(BETWEEN_LOOKS_S)


def allenact(checkout: Path, python: Path, scratch: Path) -> list[Program]:
    """Return both trainings of AllenAct's MiniGrid tutorial, of 128 samplers."""
    tutorial = str(checkout / TUTORIAL)
    own = f"{Path(TUTORIAL).stem} -b {Path(TUTORIAL).parent} -m 1 -s 1 -o {scratch / '1'}"
    ours = f"{OURS} train ddppo {tutorial} --allenact --seed=1 --device=cpu"
    return [
        Program("envlab", ours.split(), our_frames, scratch / "0", [ROOT, ROOT / "source"]),
        Program(
            "AllenAct",
            [str(python), "-c", ALLENACT, *own.split()],
            allenact_frames,
            checkout,
            [checkout],
        ),
    ]


def slm_lab(checkout: Path, python: Path, scratch: Path) -> list[Program]:
    """Return both trainings of a spec, of two sessions that step shared networks."""
    spec = scratch / "spec.json"
    spec.write_text(json.dumps({"a3c_cartpole": SPEC}))
    ours = f"{OURS} lab run {spec} a3c_cartpole train"
    seen = os.path.relpath(spec, checkout / "slm_lab/spec")  # where SLM-Lab looks for all of them
    own = f"{python} -m slm_lab.cli.main {seen} a3c_cartpole train"
    return [
        Program("envlab", ours.split(), our_frames, scratch / "0", [ROOT, ROOT / "source"]),
        Program("SLM-Lab", own.split(), slm_frames, checkout, [checkout]),
    ]


PEERS = {"allenact": allenact, "slm_lab": slm_lab}
"""Programs of each comparison, envlab's first."""


def our_frames(folder: Path, output: str) -> int:
    """Return the frames of a run, or of all sessions of a trial."""
    runs = list(folder.rglob("metrics.jsonl"))
    sessions = [path for path in runs if "sessions" in path.parts]
    return sum(_last_frames(path) for path in sessions or runs)


def _last_frames(path: Path) -> int:
    lines = path.read_text().rpartition("\n")[0].splitlines()
    return int(json.loads(lines[-1])["frames"]) if lines else 0


def allenact_frames(folder: Path, output: str) -> int:
    """Return the frames of the last report in AllenAct's log."""
    named = re.findall(r"TRAIN: (\d+) rollout steps", output)
    return int(named[-1]) if named else 0


def slm_frames(folder: Path, output: str) -> int:
    """Return the frames of all sessions in SLM-Lab's log."""
    last: dict[str, int] = {}
    output = re.sub(r"\x1b\[[\d;]*m", "", output)  # its colours
    report = r"session (\d+) \S+ \[train\](.*?)(?=\bINFO\b|\Z)"
    for session, said in re.findall(report, output, re.DOTALL):
        if found := re.search(r"\bframe: *([\d.e+]+)", said):
            last[session] = int(float(found[1]))
    return sum(last.values())


def table(programs: Sequence[Program]) -> str:
    """Return medians over blocks, with the least and largest, and the ratio of the first's."""
    lines = ["| | frames per CPU second | envlab's relative to it |", "|---|---|---|"]
    ours = statistics.median(programs[0].rates)
    for one in programs:
        rate = statistics.median(one.rates)
        shown = f"{rate:,.0f} ({min(one.rates):,.0f} to {max(one.rates):,.0f})"
        ratio = "" if one is programs[0] else f"{ours / rate:.2f}"
        lines.append(f"| {one.name} | {shown} | {ratio} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
