"""Write docs/tasks.md: each task's picture, spaces, rewards and results.

The text comes from the registry and from docs/tasks.yaml, which has the results of runs. Run this
again after adding or changing a task (a test compares the page with the output).
Pictures are rendered from the simulation, and curves are drawn from run directories::

    python scripts/documentation/tasks.py                            # the text
    python scripts/documentation/tasks.py --pictures Isaac-Ant-v0    # and pictures of these
    python scripts/documentation/tasks.py --pictures Isaac-Ant-v0 --policy RUN_DIRECTORY --steps 200
    python scripts/documentation/tasks.py --curve Isaac-Ant-v0 RUN_DIRECTORY
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces

from envlab.run.records import METRICS, Records
from envlab.sim.opengl import choose_opengl

if __name__ == "__main__":
    choose_opengl()  # must precede the import of MuJoCo

from envlab.arguments import ArgumentParser
from envlab.config import load_yaml
from envlab.distributed.context import DistributedContext
from envlab.distributed.program import guarded
from envlab.envs import DirectMarlEnv, ManagerEnvCfg, VectorEnv
from envlab.envs.managers import RewardTermCfg
from envlab.envs.managers.term import terms_of
from envlab.errors import ConfigurationError
from envlab.registry import Task, get_task, list_tasks, load_env_cfg
from envlab_navigation.nav_cfg import NavEnvCfg

DOCS = Path(__file__).parents[2] / "docs"
IMAGES = DOCS / "images/tasks"
LEARNED = DOCS / "tasks.yaml"
SIZE = (480, 270)
NUM_COLOURS = 256
FAMILIES = {
    "classic": "Classic",
    "locomotion": "Locomotion",
    "manipulation": "Manipulation",
    "in_hand": "In hand",
    "tracking": "Tracking",
    "flight": "Flight",
    "navigation": "Navigation",
}
DIFFERS = {
    "Isaac Lab": "Differs from Isaac Lab 2.3.2:",
    "mjlab": "Differs from mjlab 1.6.0:",
    "MuJoCo Playground": "Differs from MuJoCo Playground:",
}
"""Lines before the lists of differences at the end of docstrings, for docs/tasks.md."""
HEAD = """# Tasks

<!-- Written by scripts/documentation/tasks.py from the registry and tasks.yaml: edit those. -->

{number} tasks: {families}. `envlab list --keyword Go2` prints the ids with that word.

`envlab train LIBRARY --task=ID` trains any of these with its own settings. A card shows what a task
observes (numbers by group) and how many numbers it acts with, the physics steps in a step and
their length, the time limit, the environments per process, the libraries that it has settings
for, and its variant to play: few environments, no randomisation; for navigation, houses that
are not trained in. Pictures show the simulation itself; curves were measured on CPU cores.

| ids | whose task it is | |
|---|---|---|
| `Isaac-...` | Isaac Lab 2.3.2, tested by number | [differences](#what-differs-from-isaac-lab) |
| `Mjlab-...` | mjlab 1.6.0 | [differences](#what-differs-from-mjlab), [commands](from_mjlab.md) |
| `Playground-...` | MuJoCo Playground | [differences](#what-differs-from-mujoco-playground) |
| `LeggedGym-...` | [legged_gym](from_legged_gym.md#migrate-a-task) | |
| `Nav-...` | envlab, after Habitat and AllenAct | [navigation.md](navigation.md) |
| `Envlab-...` | envlab | |
| `gym:...` | [Gymnasium](gymnasium.md) | |

Robots are MJCF files written for this project (`source/envlab_assets/`), which cite the sources of
their figures. Your own: [own_robot.md](own_robot.md).
"""


def main(arguments: Sequence[str]) -> int:
    """Write the page, and the requested pictures and curves."""
    parser = ArgumentParser(prog="tasks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pictures", nargs="*", metavar="ID", help="render these tasks; none: all")
    parser.add_argument("--steps", type=int, default=8, metavar="N", help="steps before a picture")
    parser.add_argument(
        "--policy", type=Path, metavar="RUN", help="whose exported policy acts; else nobody does"
    )
    parser.add_argument("--curve", nargs=2, metavar=("ID", "RUN"), help="draw a run's curve")
    flags = parser.parse_args(arguments)
    if flags.pictures is not None:
        for task in [get_task(name) for name in flags.pictures] or pictured():
            print(render(task, flags.steps, flags.policy))
    if flags.curve is not None:
        task, run = get_task(flags.curve[0]), Path(flags.curve[1])
        metrics = ["mean_return", *load_yaml(LEARNED).get(task.id, {}).get("metrics", [])]
        print(draw_curves(run, metrics, IMAGES / f"{task.id}_curve.png"))
    (DOCS / "tasks.md").write_text(page())
    return 0


def pictured() -> list[Task]:
    """Return the tasks that have a section: all except the ``-Play`` variants."""
    return [t for t in list_tasks() if t.id == t.trained_id and _family(t) in FAMILIES]


def page() -> str:
    """Return the text of docs/tasks.md."""
    learned = load_yaml(LEARNED)
    links = ", ".join(f"[{name}](#{family.replace('_', '-')})" for family, name in FAMILIES.items())
    parts = [HEAD.format(number=len(pictured()), families=links)]
    for family, title in FAMILIES.items():
        tasks = [task for task in pictured() if _family(task) == family]
        if tasks:
            cards = (section(task, learned.get(task.id)) for task in tasks)
            parts += [f'\n## {title}\n\n<div class="tasks" markdown>\n', *cards, "\n</div>\n"]
    return "".join([*parts, *(differences(owner) for owner in DIFFERS)])


def differences(owner: str) -> str:
    """Return the table of differences from docstrings of tasks' modules, after :data:`DIFFERS`."""
    tasks: dict[str, list[str]] = {}
    for task in pictured():
        for module in _modules(task):
            for sentence in _differing(module, owner):
                tasks.setdefault(sentence, []).append(task.id)
    sentences = {"all": _differing("envlab_tasks", owner)}
    for sentence, ids in tasks.items():
        sentences.setdefault(shortened(ids), []).append(sentence)
    rows = [(ids, "<br>".join(those)) for ids, those in sentences.items() if those]
    lines = "".join(f"| {ids} | {sentence} |\n" for ids, sentence in rows)
    return f"\n## What differs from {owner}\n\n| tasks | difference |\n|---|---|\n{lines}"


def shortened(ids: Sequence[str]) -> str:
    """Return ids as text, those of one origin in braces: ``Isaac-{Ant,Humanoid}-v0``."""
    groups: dict[tuple[str, str], list[str]] = {}
    for task_id in ids:
        origin, _, name = task_id.partition("-")
        version = "-v0" if name.endswith("-v0") else ""
        groups.setdefault((origin, version), []).append(name.removesuffix("-v0"))
    texts = []
    for (origin, version), names in groups.items():
        together = names[0] if len(names) == 1 else f"{{{','.join(names)}}}"
        texts.append(f"`{origin}-{together}{version}`")
    return ", ".join(texts)


def section(task: Task, learned: dict[str, Any] | None) -> str:
    """Return a task's card."""
    cfg = load_env_cfg(task)
    env = task.make(cfg, num_envs=1, context=DistributedContext.single("cpu"), seed=0)
    observed, done = _spaces(env)
    env.close()
    lines = [f'\n<div class="task" markdown>\n\n### {task.id}\n\n']
    if (IMAGES / f"{task.id}.png").exists():
        lines.append(f"![{task.id}](images/tasks/{task.id}.png)\n\n")
    lines.append(f"{task.description}\n\n")
    libraries = ", ".join(f"`{name}`" for name in task.libraries)
    facts = [f"{observed} → {done}", *_duration(cfg), f"{cfg.scene.num_envs} environments"]
    facts.append(libraries or "no agent yet")
    facts += [
        f"to play `{other.id}`" for other in list_tasks() if other.trained_id == task.id != other.id
    ]
    lines.append(f"{'; '.join(facts)}\n\nRewards: {rewards(cfg)}\n")
    if learned:
        lines.append(f"\n{learned['result']}\n")
        if "command" in learned:
            lines.append(f"\n    {learned['command']}\n")
    if (IMAGES / f"{task.id}_curve.png").exists():
        lines.append(f"\n![Curve of {task.id}](images/tasks/{task.id}_curve.png)\n")
    return "".join([*lines, "\n</div>\n"])


def _duration(cfg: Any) -> list[str]:
    """Return the length of a task's steps and episodes."""
    if isinstance(cfg, NavEnvCfg):
        return [f"{cfg.step_m:g} m or {cfg.turn_deg:g}°", f"{cfg.max_episode_length} steps"]
    return [f"{cfg.decimation} × {cfg.sim.dt:.4g} s", f"{cfg.episode_length_s:g} s"]


def rewards(cfg: Any) -> str:
    """Return the reward's terms and weights; of a direct task, its settings that are numbers."""
    if isinstance(cfg, NavEnvCfg):
        return ", ".join(f"{name} {weight:g}" for name, weight in vars(cfg.rewards).items())
    if isinstance(cfg, ManagerEnvCfg):
        terms = terms_of(cfg.rewards, RewardTermCfg)
        return ", ".join(f"{name} {term.weight:g}" for name, term in terms.items())
    words = ("rew", "cost", "weight")
    names = [
        field.name
        for field in dataclasses.fields(cfg)
        if isinstance(getattr(cfg, field.name), float) and any(w in field.name for w in words)
    ]
    return ", ".join(f"{name} {getattr(cfg, name):g}" for name in names)


def render(task: Task, steps: int, run: Path | None = None) -> Path:
    """Write the picture of a task after some steps: of zero actions, or of a run's policy."""
    from PIL import Image

    context = DistributedContext.single("cpu")
    env = task.make(
        load_env_cfg(task), num_envs=1, context=context, seed=1, render_mode="rgb_array"
    )
    policy = torch.jit.load(run / "exported/policy.pt") if run else None
    for _ in range(steps):
        env.step(policy(env.obs_buf["policy"]) if policy else _zeros(env))
    picture = Image.fromarray(env.render()).resize(SIZE, Image.Resampling.LANCZOS)
    env.close()
    IMAGES.mkdir(parents=True, exist_ok=True)
    path = IMAGES / f"{task.id}.png"
    picture.quantize(NUM_COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def draw_curves(run: Path, metrics: Sequence[str], path: Path) -> Path:
    """Draw metrics of a run over frames, each by itself.

    Raises:
        ConfigurationError: If the folder holds no run, or the metric is not recorded.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    records = list(Records(run / METRICS).read())
    if not records:
        raise ConfigurationError(f"{run} has no record in {METRICS}. Give a run directory.")
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.subplots(1, len(metrics), squeeze=False)[0]
    for axis, metric in zip(axes, metrics, strict=True):
        points = [
            (record["frames"], value)
            for record in records
            if (value := record.get(metric, record["episode"].get(metric))) is not None
        ]
        if not points:
            raise ConfigurationError(
                f"{run} has no metric {metric!r}; it has {', '.join(records[-1]['episode'])}."
            )
        axis.plot(*zip(*points, strict=True), linewidth=1.2)
        axis.set_title(metric.rpartition("/")[2].replace("_", " "), fontsize=9)
        axis.set_xlabel("frames", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    return path


def _modules(task: Task) -> list[str]:
    """Return the modules of a task's configuration, and those of envlab_tasks that they use."""
    modules = dict.fromkeys(kind.__module__ for kind in type(load_env_cfg(task)).__mro__)
    modules.setdefault(str(task.kwargs["env_cfg_entry_point"]).partition(":")[0])
    for module in list(modules):
        for value in vars(sys.modules[module]).values():
            used = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
            if str(used).startswith("envlab_tasks."):
                modules.setdefault(str(used))
    return list(modules)


def _differing(module: str, owner: str) -> list[str]:
    """Return the points of a module's docstring after :data:`DIFFERS`, each on a line."""
    points = (sys.modules[module].__doc__ or "").partition(DIFFERS[owner])[2].split("\n- ")[1:]
    return [" ".join(point.split()).replace("``", "`") for point in points]


def _family(task: Task) -> str:
    """Return the folder of envlab_tasks that a task is in, or its package; empty for others'."""
    package, folder, *_ = str(task.kwargs["env_cfg_entry_point"]).split(".")
    if folder == "tasks":
        return package.removeprefix("envlab_")
    return folder if package == "envlab_tasks" else ""


def _spaces(env: VectorEnv) -> tuple[str, str]:
    """Return what is observed and what is done, in words."""
    if isinstance(env, DirectMarlEnv):
        groups = {name: space.shape for name, space in env.observation_spaces.items()}
        actions = ", ".join(f"`{name}` {_size(s.shape)}" for name, s in env.action_spaces.items())
    else:
        groups = {name: values.shape[1:] for name, values in env.obs_buf.items()}
        space = env.single_action_space
        actions = _size(space.shape) if isinstance(space, spaces.Box) else str(space)
        if isinstance(env.cfg, NavEnvCfg):
            actions = f"one of {', '.join(env.cfg.actions)}"
    return ", ".join(f"`{name}` {_size(shape)}" for name, shape in groups.items()), actions


def _size(shape: Sequence[int] | None) -> str:
    return " × ".join(str(size) for size in shape or ())


def _zeros(env: VectorEnv) -> Any:
    if isinstance(env, DirectMarlEnv):
        return {name: torch.zeros(1, *space.shape) for name, space in env.action_spaces.items()}
    return torch.zeros_like(env.actions)


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
