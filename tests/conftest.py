"""Setup that must run before any test module is imported, and fixtures of every test."""

import gc
import importlib.util
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

# The four workers already keep all cores busy. With a second thread for OpenMP, an operation on a
# few hundred numbers waits milliseconds for that thread to get a core. Workers inherit this.
if "--all" not in sys.argv and "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"

# First, before torch: it sets OMP_WAIT_POLICY, which OpenMP reads when torch loads it.
import envlab.cli  # noqa: F401
from tests.fork_server import REAL_LAUNCHES
from tests.hung_workers import watch_workers
from tests.launcher import start_fork_server
from tests.left_behind import mark, none_left_behind

pytest_plugins = [
    "pytester",
    "tests.compiling",
    "tests.skips",
    "tests.system_tools",
    "tests.trained",
]

gc.disable()  # until all files are imported: what they make stays, and grows
mark()
# In the background or under nohup these signals are ignored, also in processes that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _random_numbers_are_the_same_in_each_run() -> None:
    import torch  # only now: see above

    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _no_process_is_left_by_a_test() -> Iterator[None]:
    """Set up after the fixtures that tests share, whose processes may stay, and before its own."""
    with none_left_behind():
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_process_is_left_by_what_tests_share() -> Iterator[None]:
    with none_left_behind():
        yield


@pytest.fixture(autouse=True, scope="module")
def warp_compiles_in_a_hurry(pytestconfig: pytest.Config) -> Iterator[None]:
    """Leave mujoco_warp's kernels unoptimised, at a third of the CPU time, except under --all.

    Not on a GPU, for which Warp calls that unsafe.
    """
    import torch  # only now: see above

    is_wanted = not pytestconfig.getoption("--all") and not torch.cuda.is_available()
    with pytest.MonkeyPatch.context() as patch:
        if is_wanted and importlib.util.find_spec("warp"):
            import warp

            patch.setattr(warp.config, "cpu_compiler_flags", "-march=native")
            patch.setattr(warp.config, "optimization_level", 0)
            patch.setattr(warp.config, "log_level", warp.LOG_WARNING)  # else the first use prints
        yield


@pytest.fixture(autouse=True, scope="module")
def _environment_is_kept() -> Iterator[None]:
    """Undo what a module's code sets, such as MUJOCO_GL, which later launches would inherit."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all",
        action="store_true",
        help="run the tests that are marked long, too, and execute every launch instead of forking",
    )
    parser.addoption(
        "--screenshots",
        metavar="FOLDER",
        help="where tests of pages write their pictures; docs/images for those that docs show",
    )


def pytest_configure(config: pytest.Config) -> None:
    watch_workers(config)
    if config.getoption("--all"):
        os.environ[REAL_LAUNCHES] = "1"
    elif getattr(config.option, "numprocesses", None):
        start_fork_server()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests, and begin with the files that have the most slow ones.

    A file stays with one of xdist's workers (--dist loadfile --no-loadscope-reorder), so that a
    long one at the end would keep the others waiting.
    """
    if not config.getoption("--all"):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in set(long)]
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    for item in items:
        limit = item.get_closest_marker("timeout")
        if limit and item.get_closest_marker("long"):
            slow[item.path] += limit.args[0] / 60
    items.sort(key=lambda item: -slow[item.path])


def pytest_collection_finish() -> None:
    """Leave what has been imported out of garbage collections, which look at it for a second."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JAX's compilation cache, shared by all tests and all of xdist's workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder /= "compiled"
    folder.mkdir(exist_ok=True)
    return folder
