"""envlab beside programs of its peers: the same file, trained by either, in frames per CPU second.

``allenact`` trains AllenAct's MiniGrid tutorial by its own ``main.py`` and by ``--allenact``;
``slm_lab`` trains A3C on CartPole by SLM-Lab's command and by ``envlab lab run``::

    python scripts/benchmarks/compare_programs.py allenact ~/allenact --python ~/allenact/.venv/bin/python
    python scripts/benchmarks/compare_programs.py slm_lab ~/SLM-Lab --python ~/SLM-Lab/.venv/bin/python

It takes a peer's checkout, and a Python that has what the peer needs, and fetches nothing. Either
program is started once. They take turns on one core: while one has its block, all processes of the
other are stopped. A block begins and ends where the program reports its frames, and counts the CPU
time of all its processes in between, so that set-up does not count.
"""

from __future__ import annotations

import json
import os
import re
import signal
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
BETWEEN_LOOKS_S = 0.02
# main.py of d055fc9 names a variable that it does not have.
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
    """Returns the frames that it has reported, of its folder and its output."""
    folder: Path
    """Where it runs."""
    paths: Sequence[Path] = ()
    """Of its Python."""
    rates: list[float] = field(default_factory=list)
    """Frames per CPU second of each block."""


class Running:
    """A program's processes, stopped but in its blocks."""

    def __init__(self, program: Program, scratch: Path) -> None:
        """Start it."""
        self._program, self._scratch = program, scratch
        self._output = scratch / "output.txt"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, program.paths)),
            "OMP_NUM_THREADS": "1",
            "OUTPUT": str(scratch),
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

    def block(self, cpu_s: float) -> float:
        """Let it train for at least ``cpu_s`` seconds of CPU time; return frames per CPU second.

        Raises:
            ConfigurationError: If it has ended.
        """
        self._send(signal.SIGCONT)
        try:
            first, start = self._next_report()
            frames, spent = first, start
            while spent - start < cpu_s:
                frames, spent = self._next_report()
        finally:
            self._send(signal.SIGSTOP)
        return (frames - first) / (spent - start)

    def end(self) -> None:
        """End all its processes."""
        for one in self._processes():
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self._process.wait()

    def _next_report(self) -> tuple[int, float]:
        """Wait until it reports more frames; return these, and the CPU seconds so far."""
        before = self._frames()
        while self._process.poll() is None:
            time.sleep(BETWEEN_LOOKS_S)
            spent, frames = self._cpu_seconds(), self._frames()
            if frames > before:
                return frames, spent
        said = "".join(self._output.read_text().splitlines(keepends=True)[-15:])
        raise ConfigurationError(
            f"{self._program.name} ended with exit code {self._process.returncode}. Its last "
            f"words are:\n{said[-3000:]}"
        )

    def _frames(self) -> int:
        return self._program.frames(self._scratch, self._output.read_text())

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

    def _send(self, number: signal.Signals) -> None:
        for one in self._processes():
            with suppress(psutil.NoSuchProcess):
                one.send_signal(number)


def main(arguments: Sequence[str]) -> int:
    """Measure, and print a table; return 0."""
    parser = ArgumentParser(prog="compare_programs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("peer", choices=sorted(PEERS))
    parser.add_argument("checkout", type=Path, help="folder of the peer's repository")
    parser.add_argument("--python", type=Path, required=True, help="that has what the peer needs")
    parser.add_argument("--blocks", type=int, default=5, metavar="N", help="of each")
    parser.add_argument("--cpu_s", type=float, default=5.0, metavar="S", help="least time of one")
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
            one = Running(program, own)
            stack.callback(one.end)
            one.block(0.1)  # set-up, and what is only made once
            running.append(one)
        for _ in range(flags.blocks):
            for program, one in zip(programs, running, strict=True):
                program.rates.append(one.block(flags.cpu_s))
                print(f"{program.name}: {program.rates[-1]:,.0f}", file=sys.stderr, flush=True)
    print(table(programs))
    return 0


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
            lambda _, output: max(
                map(int, re.findall(r"TRAIN: (\d+) rollout steps", output)), default=0
            ),
            checkout,
            [checkout],
        ),
    ]


def slm_lab(checkout: Path, python: Path, scratch: Path) -> list[Program]:
    """Return both trainings of a spec, of two sessions that step shared networks."""
    spec = scratch / "spec.json"
    spec.write_text(json.dumps({"a3c_cartpole": SPEC}))
    ours = f"{OURS} lab run {spec} a3c_cartpole train"
    own = f"{python} -m slm_lab.cli.main {spec} a3c_cartpole train"
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


def slm_frames(folder: Path, output: str) -> int:
    """Return the frames of all sessions that SLM-Lab's log names."""
    last: dict[str, int] = {}
    for session, said in re.findall(
        r"session (\d+) \S+ \[train\](.*?)(?=\bINFO\b|\Z)", output, re.S
    ):
        if found := re.search(r"\bframe: *([\d.e+]+)", said):
            last[session] = int(float(found[1]))
    return sum(last.values())


def table(programs: Sequence[Program]) -> str:
    """Return medians, and the ratio of the first to each, with the least and largest of blocks."""
    lines = ["| | frames per CPU second | envlab's relative to it |", "|---|---|---|"]
    ours = programs[0]
    for one in programs:
        ratios = [mine / its for mine, its in zip(ours.rates, one.rates, strict=True)]
        shown = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        rate = f"{statistics.median(one.rates):,.0f}"
        lines.append(f"| {one.name} | {rate} | {'' if one is ours else shown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
