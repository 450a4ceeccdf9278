"""Run every command of README.md, CONTRIBUTING.md and docs/, each in short, in a scratch folder.

A command is a line of an indented block, or words in backquotes that name a script. Training is
cut to one iteration of a few environments; optional words in brackets are omitted; the two halves
of a command for two nodes run together on this machine. Commands that cannot run here are listed
with the reason. The files that a tutorial shows are written first::

    python scripts/documentation/commands.py                  # all; the exit code is 1 if one fails
    python scripts/documentation/commands.py --page own_robot.md   # those of a page
    python scripts/documentation/commands.py --only gym:      # those that contain a word
    python scripts/documentation/commands.py --list           # only say what would be run
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600
PROGRAMS = (
    r"python|envlab|\./envlab\.sh|pip|pytest|docker|tensorboard|apt-get|srun|export|accelerate"
)
# Patterns of commands that are not run, and the reasons; the first match counts.
SKIPPED = {
    r"isaacgym check PATH|legged_gym/logs|--agilerl|_populations.agilerl": "needs a checkout",
    r"-m envlab_isaaclab scripts|isaaclab check (PROJECT|FOLDER)|--isaaclab": "needs a project",
    r"/allenact/|minigrid_tutorial|slm_lab/spec|compare_programs": "needs a checkout",
    r"\.\.\.|LIBRARY|SPEC|\bRUN\b|\bFILE$|\b(TASK|PART|FOLDER|MODULE)\b": "not complete",
    r"<(run|student)": "not complete",
    r"Rough-Blind-Unitree-Go2-v0 --resume|G1 --num_envs=512 --resume": "needs a run of hours",
    # Incomplete commands that a sentence mentions.
    r"^envlab (?!list|runs|doctor|terms)\w+$|^envlab (lab (plot|run)|cluster \w+)$": "not complete",
    r"^envlab (play|export) evolution$|^envlab motion evaluate$": "not complete",
    r"^envlab record (hand|scripted)$|^envlab doctor --distributed$": "not complete",
    r"^envlab (train \w+|isaaclab check|nav houses --file)$": "not complete",
    r"--task([ =]ID)?$|--task[ =]ID\b|\bNAME\b": "not complete",
    r"distributed\.run$": "not complete",
    r"^python deploy": "runs in an exported folder; run by tests/tools/test_deploy.py",
    r"^(\./envlab\.sh (test|ruff)|python scripts/documentation)": "what CI runs",
    r"^(pip|apt-get)": "changes the machine",
    r"^docker": "needs docker; tests/test_docker.py runs what it can",
    r"my_reach|my_library|My-(?!Hopper)": "run by tests/test_contributing.py",
    r"my_dog": "needs a robot of your own",
    r"^envlab cluster (?!slurm|trainjob|sky)": "needs machines with ssh; run by tests/cluster",
    r"^srun|scontrol": "needs Slurm; run by tests/cluster",
    r"^tensorboard|^mlflow|^envlab dashboard|^ssh -N": "is a server",
    r"^python -m http": "is a server",
    r"hf:|wandb:": "needs the network; run by tests/tools/test_push.py",
    r"^envlab record hand": "waits for a hand; run by tests/web/viewer",
    r"^envlab view|isaacgym --viz|(replay|scripted) .*--viz": "runs on; run by tests/web/viewer",
    r"--joint_order isaaclab": "run by tests/tools/test_deploy.py",
    r"My-Hopper.* --viz": "is as viewer.md's, which is run",
    r"--skin": "needs a file or the network; run by tests/envs/test_skin.py",
    r"encoder\.pt": "needs a network of your own; run by tests/envs/mdp",
    r"clip\.npz|other\.npz|walk\.(csv|npz)": "needs a clip",
    r"benchmarks.distance": "needs root",
    r"benchmarks/(soak|libraries|hogwild)": "takes minutes",
    r"evidence run": "run by tests/scripts/test_evidence.py",
}
# Packages that no extra of the tests installs, and patterns of the commands that need them.
NEEDED = {"mpe2": "mpe2", "holosoma": "holosoma", "lerobot": r"record rsl_rl(?!.*format=hdf5)"}
# Pages that a reader follows from top to bottom in one folder, as CI does. Code blocks that begin
# with a file's name are files of the reader's.
TUTORIALS = (
    *("first_run.md", "viewer.md", "own_robot.md"),
    *("domain_randomisation.md", "evaluate.md", "deploy.md"),
)
NEEDS_GPU = r"^envlab warm|-m gpu"
# Words to add to matching commands.
SHORTENED = {
    r"learning/\w+/train\.py|envlab train": ["--max_iterations=1"],
    r"(train\.py|envlab train).* --resume": ["--max_iterations=2"],  # one more than was trained
    r"demo_online_distributed": ["--max_episodes=1", "--max_steps=20", "--evo_epochs=1"],
    r"evolution/train": ["--num_envs=8", "agent.population.generation_iterations=1"],
    r"(rsl_rl|skrl)/train\.py|envlab train (rsl_rl|skrl)": ["--num_envs=16"],
    r"ddppo .*tutorial": ["--num_envs=4", "env.houses.num_houses=2"],
    r"^envlab validate .*--eval": ["--num_episodes=2"],
    r"\b(play|train)\b.* --video": ["--video_length=5"],
    r"lab(\.py)? run .* train|run_lab\.py": ["-s", "env.max_frame=4000"],
    r"lab run .* search": ["-s", "env.max_frame=2000", "-s", "meta.max_trial=2"],
    r"motion record": ["--seconds=0.1"],
    r"actuators/record": ["--num_recordings=2", "--num_steps=50"],
    r"actuators/train": ["--num_steps=2"],
    r"play\.py|envlab play": ["--num_envs=4"],
    r"play.* --num_episodes": ["--num_episodes=4", "--no_export"],
    r"play .*Go2.*(--num_episodes=1024|friction_range)": ["--no_export", "env.episode_length_s=1"],
    # Without an end a page shows it until somebody presses a button, and at its true speed.
    r"play .*--viz web": ["--num_episodes=4", "env.episode_length_s=0.2", "--no_export"],
    r"play rsl_rl --task=Isaac-Cartpole-v0 --checkpoint=latest": ["--no_export"],  # others export
    r"^envlab random": ["--num_envs=4", "--num_steps=20"],
    r"benchmarks/throughput": ["--num_envs", "8", "--blocks=2", "--block_s=0.05"],
    # Not less: processor time is counted in hundredths of a second.
    r"benchmarks/compare_peers": ["--only=rsl_rl", "--blocks=1", "--block_s=0.3"],
    r"benchmarks/gym_bridge": ["--ids=CartPole-v1", "--seconds=0.1", "--rounds=1"],
    r"benchmarks/(arithmetic|overlap)": ["--num_envs=16", "--iterations=1"],
    r"benchmarks/(overlap|start_up|preemption)": ["--repeats=1"],
    r"benchmarks/recurrent": ["--turns=2"],
    r"benchmarks/scaling": ["--iterations=3", "--repeats=1"],
    r"benchmarks/scaling.*Ant": ["--num_envs=16", "--mode=weak"],
    r"benchmarks/navigation": ["--num_envs=4", "--blocks=1", "--block_s=0.05"],
    r"envlab nav evaluate": ["--num_episodes=4", "env.houses.num_houses=2"],
    r"benchmarks/checkpoints": ["--saves=1", "--cases=cartpole"],
}


@dataclass(frozen=True)
class Command:
    """A command on a page."""

    page: str
    text: str

    @property
    def skipped(self) -> str:
        """The reason why it is not run; empty if it is."""
        for pattern, reason in SKIPPED.items():
            if re.search(pattern, self.text):
                return reason
        for package, pattern in NEEDED.items():
            if re.search(pattern, self.text) and importlib.util.find_spec(package) is None:
                return f"needs {package}"
        if re.search(NEEDS_GPU, self.text) and not torch.cuda.is_available():
            return "needs a GPU"
        return ""

    def words(self, port: int) -> list[str]:
        """Return the command to run in its place."""
        text = self.text.replace("<ip of node 0>", "127.0.0.1").replace(":5555", f":{port}")
        text = re.sub(r"<folder>|/tmp/scaling", f"scratch_{port}", text)
        text = re.sub(r" --max_frames=[\d.e]+", "", text)
        if "torch.distributed.run" in text and "--rdzv_endpoint" not in text:
            ours = "distributed.run --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:0"
            text = text.replace("distributed.run", ours)
        words = shlex.split(text, comments=True)
        for pattern, extra in SHORTENED.items():
            if re.search(pattern, self.text):
                end = words.index("--") if "--" in words else len(words)
                words[end:end] = extra
        if words[:2] == ["envlab", "cluster"]:
            words.insert(3, "--dry_run")
        programs = {"python": [], "envlab": ["-m", "envlab.cli"], "pytest": ["-m", "pytest"]}
        programs["accelerate"] = ["-m", "accelerate.commands.accelerate_cli"]
        return [sys.executable, *programs[words[0]], *words[1:]]


def main(arguments: Sequence[str]) -> int:
    """Run the commands, print a line for each, and return 1 if one fails."""
    parser = ArgumentParser(prog="commands", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="WORD", help="commands that contain this")
    parser.add_argument("--page", default="", metavar="NAME", help="commands of this page alone")
    parser.add_argument("--list", action="store_true", help="print the commands, run nothing")
    parser.add_argument("--folder", type=Path, help="where to run them (default: a temporary one)")
    flags = parser.parse_args(arguments)
    commands = [c for c in find_commands(flags.page) if flags.only in c.text]
    if flags.list:
        for command in commands:
            print(f"{command.page:18} {command.skipped or 'run':45} {command.text}")
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = flags.folder or Path(temporary)
        prepare(folder)
        runner = Runner(folder)
        failed = [command for command in commands if not runner.passes(command)]
    print(f"{len(commands)} commands, {len(failed)} failed")
    return 1 if failed else 0


def prepare(folder: Path) -> None:
    """Make the folder in which commands run: links to the repository's, and tutorials' files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("scripts", "docs", "source"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    for name in TUTORIALS:
        write_files((ROOT / "docs" / name).read_text(), folder)


def find_commands(page: str = "") -> list[Command]:
    """Return each command once, or those of a page.

    README.md and docs/libraries.md are first, whose runs others use. Commands in evidence.md are
    records, without the task that their experiment names.
    """
    pages = [ROOT / "README.md", ROOT / "docs/libraries.md", ROOT / "CONTRIBUTING.md"]
    known = [*pages, ROOT / "docs/evidence.md"]
    pages += [path for path in sorted(ROOT.glob("docs/*.md")) if path not in known]
    found: dict[str, Command] = {}
    for path in pages:
        if page in ("", path.name):
            for text in texts(path.read_text()):
                found.setdefault(text, Command(path.name, text))
    return list(found.values())


def write_files(page: str, folder: Path) -> None:
    """Write a page's code blocks that begin with a file's name in a comment."""
    for block in re.findall(r"```\w+\n(.*?)```", page, re.DOTALL):
        if name := re.match(r"(?:# |<!-- )(\w+\.\w+)", block):
            (folder / name[1]).write_text(block)


def texts(page: str) -> Iterator[str]:
    """Yield a page's commands, without optional words and continued lines."""
    page = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    page = re.sub(r"\\\n\s+", " ", page)
    blocks = re.findall(rf"^    ((?:(?:{PROGRAMS}) |env\.).*)$", page, re.MULTILINE)
    for line in blocks + re.findall(r"`((?:python|envlab|pytest) [^`]+)`", page):
        text = re.sub(r" +\[(?:[-a-z]).*?\](?= |$)", "", line).split(" #")[0].strip()
        text = re.sub(r"^\./envlab\.sh (?!test|ruff)", "", text)
        if text.startswith("env.") and ".model=" not in text:  # overrides alone
            script = "scripts/reinforcement_learning/rsl_rl/train.py"
            text = f"python {script} --task=Isaac-Cartpole-v0 --dry_run {text}"
        shown = r"export|envlab \w+:"  # a setting, and the first line of what a command printed
        if re.match(rf"(?:{PROGRAMS}) ", text) and not re.match(shown, text):
            yield text


class Runner:
    """Runs commands one after the other, and those of two nodes together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = 0
        self._waiting: list[tuple[Command, subprocess.Popen[str]]] = []

    def passes(self, command: Command) -> bool:
        """Run a command and print the result."""
        if command.skipped:
            print(f"skip  {command.page:18} {command.text}  ({command.skipped})", flush=True)
            return True
        if "--node_rank=1" not in command.text:
            self._port = free_port()
        start = time.monotonic()
        words, redirected = globbed(command.words(self._port), self._folder), ""
        if words[-2] == ">":
            *words, _, redirected = words
        process = subprocess.Popen(
            words,
            cwd=self._folder,
            env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'source'}"},
            stdin=subprocess.DEVNULL,
            stdout=(self._folder / redirected).open("w") if redirected else subprocess.PIPE,
            stderr=subprocess.PIPE if redirected else subprocess.STDOUT,
            text=True,
        )
        if "--node_rank=0" in command.text:  # ends together with the other node's, which is next
            self._waiting.append((command, process))
            return True
        passed = report(command, process, start)
        while self._waiting:
            passed &= report(*self._waiting.pop(), start)
        return passed


def globbed(words: list[str], folder: Path) -> list[str]:
    """Return words, with the matches in a folder of each path that has a ``*``, as in a shell."""
    found = [
        [str(path.relative_to(folder)) for path in folder.glob(word)] if "/*/" in word else []
        for word in words
    ]
    return [one for word, paths in zip(words, found, strict=True) for one in paths or [word]]


def report(command: Command, process: subprocess.Popen[str], start: float) -> bool:
    """Wait for a command, and print its line, and the end of its output if it failed."""
    try:
        output, errors = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
    output = output or errors  # output that a command writes to a file is missing
    # The doctor ends with 1 where the machine has a problem.
    allowed = (0, 1) if "doctor" in command.text else (0,)
    passed = process.returncode in allowed
    took = f"{time.monotonic() - start:.0f} s"
    print(f"{'pass' if passed else 'FAIL'}  {command.page:18} {command.text}  ({took})", flush=True)
    if not passed:
        print(f"      run as: {shlex.join(process.args)}")  # type: ignore[arg-type]
        print("      " + "\n      ".join(output.strip().splitlines()[-12:]), flush=True)
    return passed


def free_port() -> int:
    """Return a port of this machine without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
