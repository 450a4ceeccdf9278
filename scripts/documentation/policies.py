"""Pack trained runs into envlab_policies, and write docs/policies.md with the results of each.

A policy is a checkpoint without optimizer and environments, with its run's manifest and parameters,
and its evaluation::

    python scripts/documentation/policies.py --pack RUN_DIRECTORY...  # new policies
    python scripts/documentation/policies.py --evaluate TASK...       # how they do when played
    python scripts/documentation/policies.py                          # the page
    python scripts/documentation/policies.py --pictures TASK...      # README's moving pictures
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from envlab.sim.opengl import choose_opengl

if __name__ == "__main__":
    choose_opengl()  # must precede the import of MuJoCo

from envlab.arguments import ArgumentParser
from envlab.cli import play
from envlab.distributed.checkpoint import load_checkpoint
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError
from envlab.libraries import get_library
from envlab.registry import get_task
from envlab.run.manifest import read_manifest
from envlab.run.packing import pack as pack_policy
from envlab.run.pretrained import EVALUATION, FILE, SELECTOR, Policy, policies
from envlab.training.arguments import play_parser
from envlab.training.play import changes_in_training, open_policy
from envlab.training.task_changes import Changes

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/policies.md"
PICTURES = ROOT / "docs/images/policies"
LARGEST = 3 << 20
"""Most bytes of a policy."""
NUM_EPISODES = 64
NUM_NAVIGATED = 1024
SIZE, FRAMES_PER_S, SECONDS = (288, 162), 12.5, 3.2
HEAD = """# Pretrained policies

<!-- Written by scripts/documentation/policies.py from the policies' evaluation.json: edit that. -->

envlab brings these policies. `--checkpoint pretrained` plays one:

    envlab play rsl_rl --task Isaac-Ant-v0 --checkpoint pretrained

`envlab export` writes one for a robot or another simulator: [deploy.md](deploy.md). Each was
trained on CPU cores, and is one seed.

Returns are what the policy earns in the task as it is registered, with its rewards, commands,
terminations, events and noise: means and standard deviations over {episodes} whole episodes, played
without exploration from states that no training drew. Navigation is played with actions drawn from
the policy, over {navigated:,} episodes in houses of `test`, which no training or selection has
used; its 95 % intervals are those of a bootstrap over houses. Where a policy was trained in a
changed task, the table names the changed parts; `--as_trained` plays it in that task.

| task | library | frames | changed in training | return | steps of an episode | |
|---|---|---|---|---|---|---|
"""
CHANGED = """
## What trainings changed

Settings of the environments that these policies were trained in, with the task's own in brackets.
Physics and the number of environments are omitted.
"""
TAIL = """
## What is missing

Some tasks could not be learned in the hours of CPU that we had: lifting and turning cubes
need Isaac Lab's 150 million frames and more, that is, a GPU. A policy that does not do its task is
not shipped.

Your own package can also bring policies, in a folder `TASK/LIBRARY` for each, as
`python scripts/documentation/policies.py --pack RUN --package FOLDER` writes them. It names itself
in its `pyproject.toml`:

```toml
[project.entry-points."envlab.policies"]
mine = "my_policies"
```
"""


def main(arguments: Sequence[str]) -> int:
    """Pack runs, play policies, draw pictures, and write the page."""
    parser = ArgumentParser(description="Pack policies, and write docs/policies.md.")
    parser.add_argument("--pack", type=Path, nargs="+", default=[], metavar="RUN")
    parser.add_argument(
        "--package", type=Path, default=ROOT / "source/envlab_policies", metavar="FOLDER"
    )
    parser.add_argument("--checkpoint", default="best", metavar="CKPT", help="latest or best")
    parser.add_argument("--evaluate", nargs="+", default=[], metavar="TASK")
    parser.add_argument("--pictures", nargs="+", default=[], metavar="TASK")
    flags = parser.parse_args(list(arguments))
    for run in flags.pack:
        pack(run, flags.checkpoint, flags.package)
    for policy in policies(flags.evaluate):
        evaluate(policy)
    for task in flags.pictures:
        print(animate(next(one for one in policies([task]))))
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


def evaluate(policy: Policy) -> None:
    """Play a policy in the task as the registry has it, and write its evaluation.

    Raises:
        ConfigurationError: If it cannot be played.
    """
    of, file = policy.manifest, policy.folder / EVALUATION
    words = [f"--task={of['task']}", f"--checkpoint={SELECTOR}", "--no_export"]
    words += [f"--json={file}", "--device=cpu"]
    if get_task(of["task"]).kind == "NavEnv":  # their episodes differ more, and are quick
        words += [f"--num_episodes={NUM_NAVIGATED}", "--num_envs=64", "env.houses.split=test"]
    else:
        words.append(f"--num_episodes={NUM_EPISODES}")
    words += _choices(policy)
    if play(of["library"], words):
        raise ConfigurationError(f"{policy.folder} cannot be played.")
    evaluation = json.loads(file.read_text())
    del evaluation["run"]
    file.write_text(json.dumps(evaluation, indent=1) + "\n")


def page() -> str:
    """Return the text of docs/policies.md."""
    own = [policy for policy in policies() if policy.folder.is_relative_to(ROOT / "source")]
    shown = [one for one in own if (one.folder / EVALUATION).exists()]
    changes = [_changes(one) for one in shown]
    rows = "".join(map(_row, shown, changes))
    head = HEAD.format(episodes=NUM_EPISODES, navigated=NUM_NAVIGATED)
    return head + rows + CHANGED + "".join(map(_list_of, shown, changes)) + TAIL


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


def _row(policy: Policy, changes: Changes) -> str:
    of, frames, task = policy.evaluation, _frames(policy), policy.manifest["task"]
    name = " ".join([policy.manifest["library"], str(policy.manifest.get("algorithm", ""))]).strip()
    navigation = of.get("measures")
    parts = ", ".join(dict.fromkeys(path.split(".")[1] for path in changes))
    changed = f"**{parts}** ([list](#what-trainings-changed))" if changes else "nothing"
    place = f" in {of['place']}" if navigation else ""
    last = [_success(navigation["all"])] if navigation else []
    if of.get("success_rate") is not None:
        last.append(f"success {of['success_rate']:.2f}")
    picture = PICTURES / f"{task}.webp"
    if picture.exists() and not navigation:
        last.append(f"![](images/policies/{picture.name})")
    anchor = f"{task}-{name.replace(' ', '-')}".lower()  # README links to it
    steps = f"{of['episode_length']:.0f}"
    return (
        f'| <a id="{anchor}"></a>`{task}`{place} | {name} | {frames / 1e6:.1f} M | {changed} '
        f"| {of['return']:.2f} ± {of['return_std']:.2f} | {steps} | {' '.join(last)} |\n"
    )


def _success(group: Mapping[str, Any]) -> str:
    """Return success and SPL with their 95 % intervals."""
    texts = [
        f"{name} {mean:.2f} ({low:.2f} to {high:.2f})"
        for name, (mean, low, high) in (("success", group["success"]), ("SPL", group["spl"]))
    ]
    return ", ".join(texts)


def _frames(policy: Policy) -> int:
    return int(load_checkpoint(policy.checkpoint)["frames"])


def animate(policy: Policy) -> Path:
    """Draw a policy at work as a moving picture that repeats."""
    from PIL import Image

    library, task = get_library(policy.manifest["library"]), policy.manifest["task"]
    words = [f"--task={task}", f"--checkpoint={SELECTOR}", "--num_envs=1", "--seed=3"]
    flags, overrides = play_parser(library).parse_with_overrides([*words, "--device=cpu"])
    opened = open_policy(library, flags, overrides, 1)
    env = opened.env
    env.render_mode = "rgb_array"
    frames, every = [], max(1, round(1.0 / (FRAMES_PER_S * env.step_dt)))
    obs = env.obs_buf
    with torch.inference_mode():
        for step in range(round(SECONDS / env.step_dt)):
            obs = env.step(opened.player.act(obs))[0]
            if step % every == 0:
                frame = Image.fromarray(env.render())
                frames.append(frame.resize(SIZE, Image.Resampling.LANCZOS))
    env.close()
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{task}.webp"
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
