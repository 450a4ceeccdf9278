"""rl_games' own TensorBoard tags, over the environments of all ranks."""

from __future__ import annotations

from collections.abc import Mapping

from envlab.learner import Curve, IterationRecord

_TAGS = {"kl": "info/kl", "alpha": "info/alpha"}
"""Tags of losses that rl_games does not put under ``losses/``."""


def library_curves(
    record: IterationRecord, step_s: float, others: Mapping[str, float]
) -> list[Curve]:
    """Return an iteration's curves, without ``shaped_rewards``: no rank knows them all.

    Args:
        record: The iteration, over all ranks.
        step_s: Time of the environments' steps on this rank, in seconds.
        others: Further values by tag.
    """
    losses = {
        name if "/" in name else _TAGS.get(name, f"losses/{name}"): value
        for name, value in record.losses.items()
    }
    frames = record.fps * (record.collect_s + record.learn_s)
    performance = {
        "performance/step_inference_rl_update_fps": record.fps,
        "performance/step_inference_fps": frames / max(record.collect_s, 1e-9),
        "performance/step_fps": frames / max(step_s, 1e-9),
        "performance/step_inference_time": record.collect_s,
        "performance/step_time": step_s,
        "performance/rl_update_time": record.learn_s,
    }
    info = {"info/last_lr": record.learning_rate, "info/epochs": record.iteration}
    curves = [Curve(record.frames, {**losses, **performance, **info, **others})]
    axes = {"step": record.frames, "iter": record.iteration, "time": round(record.wall_s)}
    for axis, position in axes.items():
        means = {
            f"rewards/{axis}": record.mean_return,
            f"episode_lengths/{axis}": record.mean_episode_length,
        }
        curves.append(Curve(position, means))
    return curves
