"""envlab against its peers: other suites' environments, and each library's own runner over ours.

Example::

    python scripts/benchmarks/compare_peers.py --only mjlab rsl_rl --write

Contenders are processes on the same cores. They take turns in blocks, and wait during the
others', so that load on the machine affects all. Rates are medians over blocks, and ratios are
those of medians. Steps per CPU second, over all threads and processes of a contender, hold on a
shared machine. ``--write`` puts the tables into the pages that have a place for them.

A peer that needs other versions of packages than envlab does gets a virtual environment in
``--folder``, made on first use with this one's torch (mjlab and AgileRL: 2 GB each).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import torch

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError
from envlab.training.evaluation import write_json

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs/performance.md", ROOT / "docs/evolve.md"]
REQUIREMENTS = {
    "mjlab": ["mjlab==1.6.0"],
    "EnvPool": ["envpool==1.2.5"],
    # AgileRL imports peft, but does not ask for it.
    "AgileRL": ["agilerl==2.58.0", "peft==0.19.1", "gymnasium[box2d]"],
}
"""Requirements of peers that run in a separate Python."""


@dataclass
class Contender:
    """A process that steps, and its measurements."""

    name: str
    words: str
    """Function of its worker, and the arguments."""
    steps: int = 1
    """Weight of a step of an environment."""
    rates: list[float] = field(default_factory=list)
    """Steps per second of each block."""
    cpu_rates: list[float] = field(default_factory=list)
    """Steps per CPU second of each block."""

    @property
    def rate(self) -> float:
        """Median of :attr:`rates`."""
        return statistics.median(self.rates)

    @property
    def cpu_rate(self) -> float:
        """Median of :attr:`cpu_rates`."""
        return statistics.median(self.cpu_rates)


def runners(library: str) -> dict[str, list[Contender]]:
    """Return envlab's training and a library's own runner over the same environments."""
    return {
        f"{task}, {num_envs} environments": [
            Contender("envlab", f"train {library} {task} {num_envs}"),
            Contender(f"{library}, its own runner", f"stock {library} {task} {num_envs}"),
        ]
        for task, num_envs in (("Isaac-Cartpole-v0", 1024), ("Isaac-Ant-v0", 2048))
    }


def beside_mjlab(task: str, motion_file: str = "") -> list[Contender]:
    """Return contenders for 64 environments of an mjlab task, in its four physics steps."""
    return [
        Contender("envlab", f"step {task} 64", steps=4),
        Contender("mjlab", f"mjlab {task} 64 {motion_file}", steps=4),
    ]


COMPARISONS: dict[str, dict[str, list[Contender]]] = {
    # In physics steps, of which a step of mjlab's Cartpole has more than one of ours.
    "mjlab": {
        "Cartpole, 1024 environments": [
            Contender("envlab", "step Isaac-Cartpole-v0 1024", steps=2),
            Contender("mjlab", "mjlab Mjlab-Cartpole-Balance 1024", steps=5),
        ],
        "Go1 on a plane, 64 environments": beside_mjlab("Mjlab-Velocity-Flat-Unitree-Go1"),
        "G1 on a plane, 64 environments": beside_mjlab("Mjlab-Velocity-Flat-Unitree-G1"),
        "G1 following a squat, 64 environments": beside_mjlab(
            "Mjlab-Tracking-Flat-Unitree-G1", f"{ROOT}/source/envlab_assets/motions/g1_squat.npz"
        ),
    },
    "gymnasium": {
        "Ant-v5 without contact forces": [
            Contender("envlab", "ant 256"),
            Contender("EnvPool", "envpool 256 128"),
            Contender("AsyncVectorEnv", "ant_async 8"),
        ]
    },
    **{library: runners(library) for library in ("rsl_rl", "rl_games", "skrl")},
    "agilerl": {
        f"DQN, {networks}": [
            Contender("envlab", f"dqn {units}"),
            Contender("AgileRL", f"agilerl {units}"),
        ]
        for networks, units in (("three layers of 64 units", 64), ("each library's default", 0))
    },
}
"""Contenders of each comparison, by what they step; ratios are of the first to each."""


def main(arguments: Sequence[str]) -> int:
    """Print a table for each comparison, and write it if asked for."""
    parser = ArgumentParser(prog="compare_peers", description=(__doc__ or "").partition("\n")[0])
    names = list(COMPARISONS)
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="comparisons")
    parser.add_argument("--match", default="", metavar="WORD", help="rows with this word alone")
    parser.add_argument("--folder", type=Path, default=Path(".venv-peers"), help="of peers")
    parser.add_argument("--cores", type=int, default=1, metavar="N", help="that they may use")
    parser.add_argument("--blocks", type=int, default=7, metavar="N", help="timed blocks of each")
    parser.add_argument(
        "--block_s", type=float, default=2.0, metavar="S", help="minimum time of one"
    )
    parser.add_argument("--write", action="store_true", help="write the tables into docs/")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    flags = parser.parse_args(list(arguments))
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= flags.cores <= len(cores) or flags.blocks < 1:
        raise ConfigurationError(
            f"--cores is {flags.cores} and --blocks is {flags.blocks}, but they must be at least "
            f"1, and --cores at most {len(cores)}."
        )
    chosen = {
        name: {row: of for row, of in COMPARISONS[name].items() if flags.match in row}
        for name in flags.only
    }
    needed = {one.name for rows in chosen.values() for of in rows.values() for one in of}
    pythons = {
        peer: peer_python(flags.folder.absolute() / peer, requirements)
        for peer, requirements in REQUIREMENTS.items()
        if peer in needed
    }
    os.sched_setaffinity(0, cores[: flags.cores])
    for name, rows in chosen.items():
        for contenders in rows.values():
            measure(contenders, pythons, flags.blocks, flags.block_s)
        text = table("physics steps" if name == "mjlab" else "steps", rows)
        print(f"{name}, {flags.cores} core(s):\n\n{text}\n", flush=True)
        if flags.write and rows:
            write(name, text)
    if flags.json is not None:
        write_json(
            flags.json,
            {
                name: {row: [vars(one) for one in of] for row, of in rows.items()}
                for name, rows in chosen.items()
            },
        )
    return 0


def measure(
    contenders: Sequence[Contender], pythons: dict[str, Path], blocks: int, block_s: float
) -> None:
    """Run blocks of all contenders alternately."""
    with ExitStack() as stack:
        workers = [stack.enter_context(started(one, pythons.get(one.name))) for one in contenders]
        for worker in workers:
            worker.run(block_s)  # set-up, and one-time work
        for _ in range(blocks):
            for contender, worker in zip(contenders, workers, strict=True):
                steps, seconds, cpu_seconds = worker.run(block_s)
                contender.rates.append(contender.steps * steps / seconds)
                contender.cpu_rates.append(contender.steps * steps / cpu_seconds)


class Worker:
    """A contender's process, which waits outside its blocks."""

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self._name, self._process, self._log = name, process, log

    def run(self, seconds: float) -> tuple[int, float, float]:
        """Have it step for ``seconds`` or a little longer; return steps, seconds, CPU seconds.

        Raises:
            ConfigurationError: If it has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        start, cpu_start = time.perf_counter(), self._cpu_seconds()
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            said = "".join(self._log.read_text().splitlines(keepends=True)[-15:])
            raise ConfigurationError(f"{self._name} ended early. Its last words are:\n{said}")
        return int(answer), time.perf_counter() - start, self._cpu_seconds() - cpu_start

    def _cpu_seconds(self) -> float:
        this = psutil.Process(self._process.pid)
        times = [one.cpu_times() for one in (this, *this.children(recursive=True))]
        return sum(spent.user + spent.system for spent in times)


@contextmanager
def started(contender: Contender, python: Path | None) -> Iterator[Worker]:
    """Start a contender in an empty folder, and end it with all its processes."""
    worker = "ours" if python is None else "others"
    words = [python or sys.executable, "-m", f"scripts.benchmarks.compare_peers_{worker}"]
    paths = [str(ROOT), str(ROOT / "source")] if python is None else [str(ROOT)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))),
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    with tempfile.TemporaryDirectory(prefix="compare_peers_") as folder:
        log = Path(folder) / "output.txt"
        with (
            log.open("w") as output,
            subprocess.Popen(
                [*words, *contender.words.split()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env=environment,
                cwd=folder,
            ) as process,
        ):
            try:
                yield Worker(contender.name, process, log)
            finally:
                if process.poll() is None:
                    this = psutil.Process(process.pid)
                    for one in (*this.children(recursive=True), this):
                        one.kill()


def peer_python(folder: Path, requirements: Sequence[str]) -> Path:
    """Return the Python of a peer's virtual environment, which is made if missing.

    Raises:
        ConfigurationError: If the peer cannot be installed.
    """
    python, done = folder / "bin/python", folder / "is_installed"
    if done.is_file():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    pins = folder / "constraints.txt"
    pins.write_text(f"torch=={torch.__version__.partition('+')[0]}\n")
    install = [str(python), "-m", "pip", "install", "--quiet", "-c", str(pins), *requirements]
    for words in ([sys.executable, "-m", "venv", str(folder)], install):
        if subprocess.run(words, check=False).returncode != 0:
            raise ConfigurationError(
                f"{folder.name} could not be installed into {folder}: '{' '.join(words)}' failed. "
                "Its own message is above; remove the folder before another attempt."
            )
    done.touch()
    return python


def table(unit: str, rows: dict[str, list[Contender]]) -> str:
    """Return a comparison's results as a table."""
    lines = [
        f"| | | {unit}/s | envlab's speed relative to it | {unit} per CPU second | by CPU time |",
        "|---|---|---|---|---|---|",
    ]
    for title, contenders in rows.items():
        ours = contenders[0]
        for one in contenders:
            ratios = (
                ("", "")
                if one is ours
                else (f"{ours.rate / one.rate:.2f}", f"{ours.cpu_rate / one.cpu_rate:.2f}")
            )
            lines.append(
                f"| {title if one is ours else ''} | {one.name} | {one.rate:,.0f} | {ratios[0]} "
                f"| {one.cpu_rate:,.0f} | {ratios[1]} |"
            )
    return "\n".join(lines)


def write(name: str, text: str) -> None:
    """Put a comparison's table between the marks with its name."""
    for page in PAGES:
        before, mark, rest = page.read_text().partition(f"<!-- compare_peers.py {name} -->\n")
        if mark:
            after = rest[rest.index("<!-- until here -->") :]
            page.write_text(f"{before}{mark}{text}\n{after}")


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
