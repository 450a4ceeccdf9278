from __future__ import annotations

import multiprocessing
import subprocess
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from envlab.child import Child
from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.registry import get_task, load_env_cfg
from envlab_web.viewer.messages import Stage
from envlab_web.viewer.web import WebViewer


def make_env(task_id: str, num_envs: int = 6) -> VectorEnv:
    task = get_task(task_id)
    cfg = merge(load_env_cfg(task), {"scene": {"num_envs": num_envs}}, "env")
    return task.make(cfg, context=DistributedContext.single("cpu"), seed=1)


@pytest.fixture(scope="package")
def cartpole() -> Iterator[VectorEnv]:
    env = make_env("Isaac-Cartpole-v0")
    yield env
    env.close()


@pytest.fixture(scope="package")
def go2() -> Iterator[VectorEnv]:
    env = make_env("Isaac-Velocity-Flat-Unitree-Go2-v0")
    yield env
    env.close()


class LocalPage(Child):
    """The viewer's end of the pipe, without a process."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.timeout_s, self._deadline = connection, 60.0, 0.0
        self.process = subprocess.Popen(["true"])


class LocalViewer(WebViewer):
    """A viewer whose page is the test: the other end of its pipe."""

    def _start(self, stage: Stage) -> None:
        self.stage = stage
        self.page: Connection
        connection, self.page = multiprocessing.Pipe()
        self._page = LocalPage(connection)

    def close(self) -> None:
        self._page.connection.close()
        self.page.close()
