"""Pack trained runs into envlab_policies, and write docs/results.md with the results of each.

A policy is a checkpoint without optimizer and environments, with its run's manifest and parameters,
and its evaluation::

    python scripts/documentation/results.py --pack RUN_DIRECTORY...  # new policies
    python scripts/documentation/results.py --evaluate TASK...       # how they do when played
    python scripts/documentation/results.py                          # the page
    python scripts/documentation/results.py --pictures TASK...      # README's moving pictures
"""

from __future__ import annotations

import json
import math
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
import yaml

from envlab.sim.opengl import choose_opengl

if __name__ == "__main__":
    choose_opengl()  # must precede the import of MuJoCo

from envlab.arguments import ArgumentParser
from envlab.cli import play
from envlab.distributed.checkpoint import load_checkpoint
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError
from envlab.libraries import get_library
from envlab.registry import get_task, load_env_cfg
from envlab.run.manifest import read_manifest
from envlab.run.packing import pack as pack_policy
from envlab.run.pretrained import EVALUATION, FILE, SELECTOR, Policy, policies
from envlab.training.arguments import play_parser
from envlab.training.continuation import Changes
from envlab.training.play import changes_in_training, open_policy

ROOT = Path(__file__).parents[2]
PAGE, CARDS = ROOT / "docs/results.md", ROOT / "docs/results.yaml"
IMAGES = ROOT / "docs/images"
LARGEST = 3 << 20
"""Most bytes of a policy."""
NUM_EPISODES = 1024
SIZE, FRAMES_PER_S, SECONDS = (288, 162), 12.5, 3.2
HEAD = """# Results

<!-- Written by scripts/documentation/results.py from docs/results.yaml and the policies'
evaluation.json: edit these. -->

These policies come with envlab. Each was measured in its task as registered, with the task's
rewards, commands, terminations, events and noise, over whole episodes, from states that no training
drew. Brackets are [95 % intervals over episodes](evaluate.md). **Each policy is one
seed**, trained on CPU cores; [evidence.md](evidence.md) compares several seeds. Navigation policies
sample their actions, in the `test` houses, which no training or selection used; their intervals are
over houses.

`envlab play LIBRARY --task=TASK --checkpoint=pretrained` plays a policy, and `envlab export` writes
it for a robot or another simulator ([deploy.md](deploy.md)). The first command of a card measures
it again; `scripts/documentation/check_results.py` does so for all.
Pictures of G1 and Go1 have the meshes of mjlab 1.6.0's files
([--skin](viewer.md#robots-that-look-like-themselves)); the physics is that of our own.

"""
CHANGED = """
## What trainings changed

These are the settings of the environments in which the policies were trained, with the task's own
value in brackets. Changes of the physics and of the number of environments are omitted.
"""
TAIL = """
## What is missing

Some tasks could not be learned in the CPU hours that we had: turning a cube in the hand takes Isaac
Lab's 600 million frames or more, and so a GPU. Lifting a cube, and pulling a drawer out until the
episode ends, were learned only from a teacher. A policy that fails its task is not shipped.

Your own package can also ship policies, each in a folder `TASK/LIBRARY` that
`python scripts/documentation/results.py --pack RUN --package FOLDER` writes. The package declares
itself in its `pyproject.toml`:

```toml
[project.entry-points."envlab.policies"]
mine = "my_policies"
```
"""


def main(arguments: Sequence[str]) -> int:
    """Pack runs, play policies, draw pictures, and write the page."""
    parser = ArgumentParser(description="Pack policies, and write docs/results.md.")
    parser.add_argument("--pack", type=Path, nargs="+", default=[], metavar="RUN")
    parser.add_argument(
        "--package", type=Path, default=ROOT / "source/envlab_policies", metavar="FOLDER"
    )
    parser.add_argument("--checkpoint", default="best", metavar="CKPT", help="latest or best")
    parser.add_argument("--evaluate", nargs="+", default=[], metavar="TASK")
    parser.add_argument(
        "--num_episodes", type=int, default=NUM_EPISODES, help=f"default: {NUM_EPISODES:,}"
    )
    parser.add_argument("--pictures", nargs="+", default=[], metavar="TASK")
    parser.add_argument("--skin", metavar="FILE", help="of robots in --pictures")
    flags = parser.parse_args(list(arguments))
    for run in flags.pack:
        pack(run, flags.checkpoint, flags.package)
    for policy in policies(flags.evaluate) if flags.evaluate else ():
        evaluate(policy, flags.num_episodes)
    for task in flags.pictures:
        card, first = next(one for one in cards() if one[1].manifest["task"] == task)
        print(animate(first, card.get("seconds", SECONDS), flags.skin))
    PAGE.write_text(page())
    return 0


def pack(run: Path, selector: str, package: Path) -> None:
    """Write a run's policy into a package.

    Raises:
        ConfigurationError: If it is too large.
    """
    manifest = read_manifest(run)
    task, library = manifest["task"], manifest["library"]
    name = f"{library}_{manifest['algorithm']}" if "algorithm" in manifest else library
    folder = package / task / name
    pack_policy(run, selector, folder, FILE)
    size = (folder / FILE).stat().st_size
    if size > LARGEST:
        shutil.rmtree(folder)
        raise ConfigurationError(f"{run} has {size} bytes; a policy has at most {LARGEST}.")


def evaluate(policy: Policy, num_episodes: int) -> None:
    """Play a policy in the task as the registry has it, and write its evaluation.

    Raises:
        ConfigurationError: If it cannot be played.
    """
    file = policy.folder / EVALUATION
    words = shlex.split(play_command(policy, num_episodes))[2:]
    if play(words[0], [*words[1:], f"--json={file}", "--device=cpu"]):
        raise ConfigurationError(f"{policy.folder} cannot be played.")
    evaluation = json.loads(file.read_text())
    del evaluation["run"]
    file.write_text(json.dumps(evaluation, indent=1) + "\n")


def play_command(policy: Policy, num_episodes: int) -> str:
    """Return the command that measures a policy."""
    of = policy.manifest
    words = ["envlab", "play", of["library"], *_choices(policy), f"--task={of['task']}"]
    words += [f"--checkpoint={SELECTOR}", "--no_export", f"--num_episodes={num_episodes}"]
    task = get_task(of["task"])
    if task.kind == "NavEnv":
        words += ["--num_envs=64", "env.houses.split=test"]
    elif load_env_cfg(task).scene.terrain is not None:  # a second episode may be on a higher level
        words.append(f"--num_envs={num_episodes}")
    elif num_episodes > 256:  # else as many as play has
        words.append("--num_envs=256")
    return shlex.join(words)


def cards() -> list[tuple[dict[str, Any], Policy]]:
    """Return the cards in their order, each with its policy.

    Raises:
        ConfigurationError: If a card has no policy, or a policy no card.
    """
    own = [one for one in policies() if one.folder.is_relative_to(ROOT / "source")]
    found = []
    for card in yaml.safe_load(CARDS.read_text()):
        library = card.get("library")
        fitting = [
            one
            for one in own
            if one.manifest["task"] == card["task"] and library in (None, one.manifest["library"])
        ]
        if len(fitting) != 1:
            raise ConfigurationError(
                f"{len(fitting)} policies fit the card {card}. Name a library."
            )
        found.append((card, fitting[0]))
    left = [str(one.folder) for one in own if one not in [policy for _, policy in found]]
    if left:
        raise ConfigurationError(f"{', '.join(left)} have no card in {CARDS}. Write them.")
    return found


def page() -> str:
    """Return the text of docs/results.md."""
    shown = cards()
    changes = [_changes(policy) for _, policy in shown]
    pictures = "\n".join(filter(None, map(_link_of, (policy for _, policy in shown))))
    texts = [_card(card, policy, one) for (card, policy), one in zip(shown, changes, strict=True)]
    lists = [_list_of(policy, one) for (_, policy), one in zip(shown, changes, strict=True)]
    return HEAD + pictures + "\n\n" + "\n".join(texts) + CHANGED + "".join(lists) + TAIL


def _changes(policy: Policy) -> Changes:
    """Return the settings of the task that a policy's training changed."""
    of = policy.manifest
    library = get_library(of["library"])
    words = [f"--task={of['task']}", f"--checkpoint={SELECTOR}", *_choices(policy)]
    flags, _ = play_parser(library).parse_with_overrides(words)
    return changes_in_training(library, flags, policy.folder)


def _choices(policy: Policy) -> list[str]:
    """Return the flags that choose a policy's algorithm, where its library has several."""
    of = policy.manifest
    return [f"--{key}={of[key]}" for key in ("algorithm", "ml_framework") if key in of]


def _list_of(policy: Policy, changes: Changes) -> str:
    """Return a policy's part of the list of changes."""
    if not changes:
        return ""
    lines = [
        f"- `{path}`: {_text(own)} ({_text(usual)})\n" for path, (own, usual) in changes.items()
    ]
    return f"\n### {policy.manifest['task']}, {policy.manifest['library']}\n\n{''.join(lines)}"


def _text(value: Any) -> str:
    """Return a setting; of a whole term, its function."""
    if isinstance(value, Mapping):
        value = value["func"].rpartition(":")[2]
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _link_of(policy: Policy) -> str:
    """Return a policy's picture, which leads to its card; empty without one."""
    picture, is_moving = _picture(policy)
    return f"[![{policy.manifest['task']}]({picture})](#{_anchor(policy)})" if is_moving else ""


def _picture(policy: Policy) -> tuple[str, bool]:
    """Return a policy's picture, and whether it shows the policy, not the task alone."""
    task = policy.manifest["task"]
    moving = IMAGES / "policies" / f"{task}.webp"
    still = IMAGES / "tasks" / f"{task}.png"
    path = moving if moving.exists() else still
    if not path.exists():  # navigation's, of an episode
        path = IMAGES / "navigation/episode.png"
    return path.relative_to(PAGE.parent).as_posix(), moving.exists()


def _anchor(policy: Policy) -> str:
    return f"{policy.manifest['task']}-{_way(policy).replace(' ', '-')}".lower()


def _way(policy: Policy) -> str:
    of = policy.manifest
    return " ".join([of["library"], str(of.get("algorithm", ""))]).strip()


def _card(card: Mapping[str, Any], policy: Policy, changes: Changes) -> str:
    """Return a policy's card."""
    of, task = policy.evaluation, policy.manifest["task"]
    place = f" in {of['place']}" if "measures" in of else ""
    parts = ", ".join(dict.fromkeys(path.split(".")[1] for path in changes))
    changed = f"**{parts}** ([list](#what-trainings-changed))" if changes else "nothing"
    frames, minutes, training = _frames(policy), _minutes(card, policy), _training(policy)
    rows = {
        "measured": f"{of['num_episodes']:,} episodes{place}",
        "return": f"{of['return']:.2f} ± {of['return_std']:.2f} (standard deviation)",
        "steps of an episode": f"{of['episode_length']:.0f}",
        "trained for": f"{frames / 1e6:.1f} M frames, {minutes:.0f} minutes, {card['cores']}"
        + ("" if training else f", in stages ([how](tasks.md#{task.lower()}))"),
        "changed in training": changed,
    }
    table = "".join(f"| {name} | {value} |\n" for name, value in rows.items())
    curve = IMAGES / "tasks" / f"{task}_curve.png"
    lines = [
        f'## <a id="{_anchor(policy)}"></a>{task}, {_way(policy)}\n',
        f"**{card['says'].format_map(Measures(of))}**\n",
        f"![{task}]({_picture(policy)[0]})\n",
        f"| | |\n|---|---|\n{table}",
        f"    {play_command(policy, of['num_episodes'])}\n"
        + (f"    {training}\n" * bool(training)),
    ]
    if curve.exists():
        lines.append(f"![Curve of {task}]({curve.relative_to(PAGE.parent).as_posix()})\n")
    lines.append(f"More in [tasks.md](tasks.md#{task.lower()}).\n")
    return "\n".join(lines)


class Measures(dict[str, str]):
    """Measures of an evaluation in words, with their intervals; in percent if a name ends in %."""

    def __init__(self, evaluation: Mapping[str, Any]) -> None:
        self._evaluation = evaluation

    def __missing__(self, name: str) -> str:
        of, key = self._evaluation, name.removesuffix("%")
        if "measures" in of and key in of["measures"]["all"]:
            mean, *ends = of["measures"]["all"][key]
        else:
            mean, ends = of[key], of["intervals"][key]
        unit = ""
        if key != name:
            mean, ends, unit = 100.0 * mean, [100.0 * end for end in ends], " %"
        largest = max(abs(mean), abs(ends[1]), 1e-9)
        digits = max(1 if unit else 0, 2 - math.floor(math.log10(largest)))
        low, high = (f"{end:.{min(digits, 3)}f}" for end in ends)
        return f"{mean:.{min(digits, 3)}f}{unit} ({low} to {high}{unit})"


def _minutes(card: Mapping[str, Any], policy: Policy) -> float:
    """Return how long a policy was trained."""
    if "minutes" in card:
        return float(card["minutes"])
    start, end = (
        datetime.fromisoformat(policy.manifest[f"{k}_at"]) for k in ("created", "updated")
    )
    return (end - start).total_seconds() / 60.0


def _training(policy: Policy) -> str:
    """Return the command that trained a policy; empty if there were several."""
    of = policy.manifest
    words = shlex.split(of["command"])
    start = next(i for i, word in enumerate(words) if word.startswith("--"))
    begins = any(word.startswith("--checkpoint=") for word in words)
    if "--resume" in words or (begins and "--checkpoint=scripted" not in words):
        return ""
    chosen = [word for word in words[start:] if word != "--headless"]
    return shlex.join(["envlab", "train", of["library"], *chosen])


def _frames(policy: Policy) -> int:
    return int(load_checkpoint(policy.checkpoint)["frames"])


def animate(policy: Policy, seconds: float, skin: str | None) -> Path:
    """Draw a policy at work as a moving picture that repeats.

    Args:
        policy: The policy.
        seconds: How long.
        skin: Of ``--skin``.
    """
    from PIL import Image

    library, task = get_library(policy.manifest["library"]), policy.manifest["task"]
    words = [f"--task={task}", f"--checkpoint={SELECTOR}", "--num_envs=1", "--seed=3"]
    words += [] if skin is None else [f"--skin={skin}"]
    flags, overrides = play_parser(library).parse_with_overrides([*words, "--device=cpu"])
    opened = open_policy(library, flags, overrides, 1)
    env = opened.env
    env.render_mode = "rgb_array"
    frames, every = [], max(1, round(1.0 / (FRAMES_PER_S * env.step_dt)))
    obs = env.obs_buf
    with torch.inference_mode():
        for step in range(round(seconds / env.step_dt)):
            obs = env.step(opened.player.act(obs))[0]
            if step % every == 0:
                frame = Image.fromarray(env.render())
                frames.append(frame.resize(SIZE, Image.Resampling.LANCZOS))
    env.close()
    path = IMAGES / "policies" / f"{task}.webp"
    path.parent.mkdir(parents=True, exist_ok=True)
    duration = round(1000.0 * every * env.step_dt)
    frames[0].save(
        path,
        save_all=True,
        append_images=frames[1:],
        duration=duration,
        loop=0,
        quality=40,
        method=6,
    )
    return path


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
