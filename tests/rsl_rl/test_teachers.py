"""A student of several teachers, one for each kind of ground or for each clip."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.envs import ManagerEnv
from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from envlab.rsl_rl.distillation import Specialists, check_teachers
from tests.learner_contract import digests, timeless_digests
from tests.rsl_rl.test_recurrent_cnn import POLICIES, WORDS
from tests.trained import checkpoint_of, manifest_of, train_in

NAMES = ("gaps", "hurdles", "steps")
TASK = "Envlab-Velocity-Parkour-Depth-Unitree-Go2-v0"
PLAIN = [word for word in WORDS if not word.startswith(("--checkpoint", "--task", "--num_envs"))]
COMMAND = [*PLAIN, f"--task={TASK}", "--num_envs=6"]


class Recorder(torch.nn.Module):
    """A teacher with constant actions, whose memory counts calls since the last reset."""

    is_recurrent = True

    def __init__(self) -> None:
        super().__init__()
        self.level = torch.nn.Parameter(torch.zeros(1))
        self.memory: torch.Tensor | None = None

    def forward(self, obs) -> torch.Tensor:
        num = len(obs["policy"])
        self.memory = torch.zeros(1, num, 1) if self.memory is None else self.memory
        self.memory = self.memory + 1.0
        return self.level.expand(num, 12)

    def reset(self, dones=None, hidden_state=None) -> None:
        if dones is None:
            self.memory = hidden_state
        elif self.memory is not None:
            self.memory[..., dones == 1, :] = 0.0

    def get_hidden_state(self) -> torch.Tensor | None:
        return self.memory


@pytest.fixture(scope="module")
def env() -> ManagerEnv:
    ground = {"terrain": {"terrain_generator": {"num_rows": 2, "num_cols": 3}}}
    task = get_task(TASK)
    cfg = merge(load_env_cfg(task), {"scene": ground}, "env")
    return task.make(cfg, context=DistributedContext.single("cpu"), num_envs=6, seed=0)


def test_each_robot_is_taught_by_the_teacher_of_its_tile(env):
    teachers = Specialists(Recorder(), reversed(NAMES), env)
    for number, name in enumerate(NAMES):
        teachers.models[name].level.data.fill_(float(number))
    obs = RslRlVecEnvWrapper(env).get_observations()
    assert env.terrain.terrain_kinds.tolist() == [0, 0, 1, 1, 2, 2]
    assert teachers(obs)[:, 0].tolist() == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    kinds = env.terrain.kinds.clone()
    try:
        env.terrain.kinds.copy_(torch.tensor([0, 1, 2, 2, 1, 0]))  # no curriculum: by tile
        env.terrain.terrain_levels.copy_(torch.tensor([0, 1, 0, 1, 0, 1]))
        assert teachers(obs)[:, 0].tolist() == [0.0, 2.0, 1.0, 1.0, 2.0, 0.0]
    finally:
        env.terrain.kinds.copy_(kinds)


def following(*clips: str) -> ManagerEnv:
    task = get_task("Mjlab-Tracking-Flat-Unitree-G1")
    files = [f"envlab_assets:motions/{clip}.npz" for clip in clips]
    cfg = merge(load_env_cfg(task), {"commands": {"motion": {"motion_file": files}}}, "env")
    return task.make(cfg, context=DistributedContext.single("cpu"), num_envs=4, seed=0)


def test_each_robot_is_taught_by_the_teacher_of_its_clip():
    env = following("g1_squat", "g1_wave", "g1_walk")
    names = ["g1_walk", "g1_squat", "g1_wave"]
    check_teachers(dict.fromkeys(names, "x.pt"), env)
    teachers = Specialists(Recorder(), names, env)
    for number, name in enumerate(names):
        teachers.models[name].level.data.fill_(float(number))
    obs = RslRlVecEnvWrapper(env).get_observations()
    # The squat has 201 frames, and the wave 251.
    motion = env.command_manager.get_term("motion")
    motion.frames.copy_(torch.tensor([0, 200, 201, 452]))
    assert teachers(obs)[:, 0].tolist() == [1.0, 1.0, 2.0, 0.0]
    env.close()


def test_clips_of_one_name_have_no_teachers_of_their_own():
    env = following("g1_squat", "g1_squat")
    with pytest.raises(ConfigurationError, match="clips share a name: g1_squat, g1_squat"):
        check_teachers({"g1_squat": "x.pt"}, env)
    env.close()


def test_all_remember_all_robots(env):
    teachers = Specialists(Recorder(), NAMES, env)
    obs = RslRlVecEnvWrapper(env).get_observations()
    assert teachers.get_hidden_state() is None
    teachers(obs)
    teachers.reset(torch.tensor([1, 0, 0, 0, 0, 1]))
    teachers(obs)
    memory = teachers.get_hidden_state()
    expected = [1.0, 2.0, 2.0, 2.0, 2.0, 1.0]
    assert [part.flatten().tolist() for part in memory] == [expected] * 3
    teachers.reset()
    assert teachers.get_hidden_state() is None
    teachers.reset(hidden_state=memory)
    assert teachers.get_hidden_state() == memory


@pytest.fixture(scope="module")
def specialists(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three policies of the ground's scan, by the kind that they are for."""
    folder = tmp_path_factory.mktemp("specialists")
    shipped = next(word for word in WORDS if word.startswith("--checkpoint=")).partition("=")[2]
    values = torch.load(shipped, weights_only=True)
    actor = values["model"]["actor_state_dict"]
    paths = {}
    for number, name in enumerate(NAMES):
        actor["mlp.0.bias"] = actor["mlp.0.bias"] + number
        paths[name] = folder / f"{name}.pt"
        torch.save(values, paths[name])
    return paths


def words_of(paths: dict[str, Path]) -> list[str]:
    return [*COMMAND, *(f"+agent.teachers.{name}={path}" for name, path in paths.items())]


def test_checkpoints_hold_all_teachers_and_runs_resume_without_their_files(
    specialists: dict[str, Path], tmp_path: Path
):
    gone = {name: tmp_path / f"{name}.pt" for name in NAMES}
    for name, path in gone.items():
        shutil.copy(specialists[name], path)
    words = words_of(gone)
    assert train_in(tmp_path, *words, "--max_iterations=2", "--run_name=whole") == 0
    (whole,) = tmp_path.glob("logs/*/*/*_whole")
    taken = checkpoint_of(whole, 2)["model"]["teacher_state_dict"]
    for name, path in gone.items():
        own = torch.load(path, weights_only=True)["model"]["actor_state_dict"]
        kept = {key.removeprefix(f"models.{name}."): v for key, v in taken.items() if name in key}
        assert digests(kept) == digests(own), name
        path.unlink()
    expected = ", ".join(f"agent.teachers.{name}={path}" for name, path in gone.items())
    assert manifest_of(whole)["policy_from"] == expected
    flags = [f"--task={TASK}", "--device=cpu", "--resume", "--max_iterations=2", "--run_name=again"]
    half = f"--checkpoint={whole}/checkpoints/model_1.pt"
    assert train_in(tmp_path, *flags, half) == 0
    (again,) = tmp_path.glob("logs/*/*/*_again")
    ends = [timeless_digests(checkpoint_of(run, 2)) for run in (whole, again)]
    assert ends[0] == ends[1]


FOREIGN = POLICIES / "Isaac-Humanoid-v0/fast_sac/policy.pt"
REFUSED: dict[str, tuple[dict[str, Path | None], list[str]]] = {
    "--checkpoint and --load_run have no effect with agent": ({}, ["--checkpoint=pretrained"]),
    "There is no checkpoint .*none/x.pt": ({"gaps": Path("none/x.pt")}, []),
    "names the sub-terrain 'gap', but the task has gaps": ({"gap": FOREIGN}, []),
    "has no teacher for gaps. Give each sub-terrain one": ({"gaps": None}, []),
    "but this task has none": ({}, ["env.scene.terrain=null", "env.curriculum=null"]),
    "gaps.pt does not fit agent.teacher": ({}, ["agent.teacher.hidden_dims=[8]"]),
    "agent.teachers.gaps is a policy of fast_sac": ({"gaps": FOREIGN}, []),
}


def test_bad_input_is_one_sentence(specialists: dict[str, Path], tmp_path: Path, capsys):
    for message, (teachers, words) in REFUSED.items():
        named = {name: path for name, path in {**specialists, **teachers}.items() if path}
        assert train_in(tmp_path, *words_of(named), *words, "--max_iterations=1") == 2, message
        (error,) = re.findall(r"^error: .*", capsys.readouterr().err, re.MULTILINE)
        assert re.search(message, error), error
