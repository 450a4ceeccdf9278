"""Cost of ``--viz web`` in training: iterations with and without a visitor.

    OMP_NUM_THREADS=1 python scripts/benchmarks/viewer.py [--num_envs 1024] [--turns 10]

One training of rsl_rl runs, whose iterations alternate between no viewer and a viewer. The page is
drawn by its own process as always; the visitor reads the page's messages and draws nothing, like a
browser on another machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from urllib.parse import urlsplit

import msgspec
import viser
from websockets import Subprotocol
from websockets.sync.client import connect

from envlab.distributed.context import DistributedContext
from envlab.libraries import get_library
from envlab.training.arguments import train_parser
from envlab.training.plan import plan_run
from envlab.training.preparation import make_env
from envlab_web.viewer.web import WebViewer


def main() -> None:
    """Take turns, and print medians and their ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="Isaac-Velocity-Flat-Unitree-Go2-v0")
    parser.add_argument("--num_envs", type=int, default=1024, help="(default: %(default)s)")
    parser.add_argument("--turns", type=int, default=10, help="of each (default: %(default)s)")
    flags = parser.parse_args()
    library = get_library("rsl_rl")
    words = [f"--task={flags.task}", f"env.scene.num_envs={flags.num_envs}", "--device=cpu"]
    plan = plan_run(*train_parser(library).parse_with_overrides(words), library)
    context = DistributedContext.single("cpu")
    env = make_env(plan, context)
    learner = library.load("build")(plan, env, context)
    learner.start(2 * flags.turns + 1)
    viewer = Counted(env, title=flags.task, port=0, is_played=False)
    visitor = multiprocessing.get_context("spawn").Process(
        target=visit, args=(viewer.address,), daemon=True
    )
    visitor.start()

    def on_step(*_: object) -> None:
        viewer.after_step()

    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    while not viewer.num_frames:
        time.sleep(0.1)
        viewer.after_step()
    for number in range(1, 2 * flags.turns + 2):
        is_watched = number % 2 == 0
        start = time.perf_counter(), time.process_time()
        learner.iterate(number, on_step if is_watched else lambda *_: None)
        if number > 1:  # the first one warms up
            times = time.perf_counter() - start[0], time.process_time() - start[1]
            found[is_watched].append(times)
    visitor.terminate()
    viewer.close()
    env.close()
    watched_s = sum(wall for wall, _ in found[True])
    print(f"{viewer.num_frames / watched_s:.1f} frames per second were sent while watched")
    for name, column in (("wall", 0), ("CPU", 1)):
        alone, watched = (
            statistics.median(times[column] for times in found[is_watched])
            for is_watched in (False, True)
        )
        print(
            f"{name} time of an iteration: {alone:.3f} s alone, {watched:.3f} s watched,", end=" "
        )
        print(f"{watched / alone - 1.0:+.1%}")


class Counted(WebViewer):
    """Counts the frames that are sent."""

    num_frames = 0

    def _frame(self):  # type: ignore[no-untyped-def]
        self.num_frames += 1
        return super()._frame()


def visit(address: str) -> None:
    """Open the page's WebSocket as viser's own script does, and read forever."""
    host = urlsplit(address).netloc
    camera = {"wxyz": (1.0, 0.0, 0.0, 0.0), "position": (2.0, 0.0, 1.0), "fov": 0.8}
    camera |= {"near": 0.01, "far": 1000.0, "image_height": 560, "image_width": 900}
    camera |= {"look_at": (0.0, 0.0, 0.0), "up_direction": (0.0, 0.0, 1.0)}
    with connect(
        f"ws://{host}/?{urlsplit(address).query}",
        subprotocols=[Subprotocol(f"viser-v{viser.__version__}")],
        max_size=None,
    ) as socket:
        socket.send(msgspec.msgpack.encode({"type": "ViewerCameraMessage", **camera}))
        while True:
            socket.recv()


if __name__ == "__main__":
    main()
