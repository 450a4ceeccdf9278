"""The promises of every task, asked of a configuration that a test has composed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from envlab.envs import ManagerEnv, ManagerEnvCfg
from envlab.task import Task
from envlab.tools.probe import brief, check


@dataclass(frozen=True, kw_only=True)
class Composed(Task):
    """A task that a test has composed."""

    env: ClassVar[type[ManagerEnv]] = ManagerEnv

    def make(self, cfg: Any, **kwargs: Any) -> Any:
        return self.env(cfg, **kwargs)


def assert_keeps_promises(cfg: ManagerEnvCfg, *, but: str = "none") -> None:
    """Check seeds, resumes, one process against two, and a GPU's graphs, by what is observed.

    Args:
        cfg: The configuration.
        but: Words of a promise that it need not keep, such as that of seeds, where a curriculum
            has come further by the second reset.
    """
    task = Composed(id="Test-v0", kind="manager", libraries=[], description="", kwargs={})
    results = dict(check(task, brief(cfg)))
    assert len(results) == 6
    broken = [f"{what}: {how}" for what, how in results.items() if how and but not in what]
    assert not broken, broken
