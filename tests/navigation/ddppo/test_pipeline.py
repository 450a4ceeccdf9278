"""Stages, settings and schedules, against numbers computed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import optim
from torch.optim.lr_scheduler import LambdaLR, StepLR

from envlab.errors import CheckpointError
from envlab_navigation.ddppo.pipeline import PipelineStage, StageComponent, TrainingPipeline
from envlab_navigation.ddppo.schedules import Builder, LinearDecay, MultiLinearDecay
from tests.refusals import check_refusals


def make_pipeline(
    *stages: PipelineStage, lr_lambda: Callable[[int], float] | None = None, **settings: Any
) -> TrainingPipeline:
    """Return a pipeline with the losses ``ppo`` and ``imitation``."""
    scheduler = lr_lambda and Builder(LambdaLR, {"lr_lambda": lr_lambda})
    return TrainingPipeline(
        named_losses={"ppo": object(), "imitation": SimpleNamespace(needs_expert=True)},
        pipeline_stages=list(stages),
        optimizer_builder=Builder(optim.Adam, {"lr": 3e-4}),
        **{"lr_scheduler_builder": scheduler or None, **settings},
    )


def stage(steps: int = 100, losses: tuple[str, ...] = ("ppo",), **settings: Any) -> PipelineStage:
    return PipelineStage(loss_names=losses, max_stage_steps=steps, **settings)


def tutorial_curve(nodes: int) -> MultiLinearDecay:
    """Return the learning rate of AllenAct's tutorial, in its own numbers."""
    total, safe, transition = 300_000_000, 30_600_000, int(2 / 3 * nodes * 1e6)
    low = 1.0 - safe / total
    high = math.sqrt(nodes) * (1.0 - (safe + transition) / total)
    first, second = LinearDecay(safe, 1.0, low), LinearDecay(transition, low, high)
    return MultiLinearDecay([first, second, LinearDecay(total - safe - transition, high, 0.0)])


def test_learning_rate_of_the_tutorial_on_three_nodes_rises_from_0_898_to_1_544() -> None:
    curve = tutorial_curve(3)
    values = [curve(step) for step in (0, 15_300_000, 30_600_000, 31_600_000, 32_600_000)]
    # 1 - 30.6/300 = 0.898; sqrt(3) * (1 - 32.6/300) = 1.54384; half way between them at 31.6 M.
    assert values == pytest.approx([1.0, 0.949, 0.898, 1.22092, 1.54384], abs=1e-5)
    assert [curve(300_000_000), curve(400_000_000)] == [0.0, 0.0]
    assert curve(0) == 1.0  # again: it is a function of the step alone


def test_next_stage_begins_at_the_end_of_the_rollout_that_reaches_its_steps() -> None:
    pipeline = make_pipeline(stage(100), stage(50), lr_lambda=LinearDecay(150))
    seen, factors = [], []
    while not pipeline.is_finished:
        pipeline.advance(40)
        seen.append((pipeline.stage_number, pipeline.stage_steps, pipeline.total_steps))
        factors.append(pipeline.learning_rate_factor())
    # 120 steps are 20 more than the first stage has; the second still gets its 50.
    assert seen == [(0, 40, 40), (0, 80, 80), (1, 0, 120), (1, 40, 160), (2, 80, 200)]
    assert factors == pytest.approx([11 / 15, 7 / 15, 3 / 15, 0.0, 0.0])  # across stages
    assert (pipeline.stage, pipeline.max_steps) == (None, 150)


def test_components_inherit_from_their_stage_and_stages_from_the_pipeline() -> None:
    parts = [
        StageComponent(uuid="often", loss_names=["ppo"], update_repeats=7),
        StageComponent(uuid="rest", loss_names=["imitation"], loss_weights=[0.1]),
    ]
    first = stage(losses=("ppo", "imitation"), num_mini_batch=3, stage_components=parts)
    pipeline = make_pipeline(first, stage(), num_mini_batch=1, gamma=0.9, max_grad_norm=2.0)
    often, rest = pipeline.pipeline_stages[0].components
    assert (often.num_mini_batch, often.update_repeats, often.max_grad_norm) == (3, 7, 2.0)
    assert (rest.num_mini_batch, rest.update_repeats, rest.max_grad_norm) == (3, 4, 2.0)
    assert [(name, weight) for name, _, weight in rest.losses] == [("imitation", 0.1)]
    second = pipeline.pipeline_stages[1]
    assert (second.num_mini_batch, second.gamma, second.gae_lambda) == (1, 0.9, 0.95)


def test_expert_is_asked_only_where_a_loss_or_teacher_forcing_needs_it() -> None:
    forced = stage(teacher_forcing=LinearDecay(100, 1.0, 0.0))
    pipeline = make_pipeline(stage(), stage(losses=("imitation",)), forced)
    assert [one.needs_expert for one in pipeline.pipeline_stages] == [False, True, True]
    assert [pipeline.pipeline_stages[2].teacher_forcing_share(at) for at in (0, 25)] == [1.0, 0.75]
    assert pipeline.pipeline_stages[0].teacher_forcing_share(0) == 0.0


def test_restored_progress_continues_in_mid_stage() -> None:
    pipeline = make_pipeline(stage(100), stage(100), stage(100))
    pipeline.advance(60)
    pipeline.end_stage()
    pipeline.advance(30)
    again = make_pipeline(stage(100), stage(100), stage(100))
    again.set_state(pipeline.state())
    pipeline.advance(70)
    assert (again.stage_number, again.stage_steps, again.total_steps) == (1, 30, 90)
    again.advance(70)
    assert again.state() == pipeline.state()
    with pytest.raises(CheckpointError, match="pipeline with 3 stages, but this pipeline has 1"):
        make_pipeline(stage()).set_state(pipeline.state())


def test_pipeline_that_makes_no_sense_is_refused() -> None:
    component = StageComponent(loss_names=["ppo"], gamma=0.5)
    scheduler = {"lr_scheduler_builder": Builder(StepLR, {"step_size": 3})}
    of = "Did you mean ppo"
    check_refusals(
        lambda *stages: make_pipeline(*stages),
        [
            ("has no stages",),
            (stage(losses=()), "Stage 1 .* needs a list of at least one of ppo"),
            (stage(losses=("pro",)), f"names the loss 'pro'.*{of}"),
            (stage(loss_weights=[1.0, 2.0]), "2 loss_weights for 1 loss_names"),
            (stage(), stage(0), "Stage 2 .* max_stage_steps=0"),
            (stage(num_mini_batch=0), "Stage 1 .* num_mini_batch=0"),
            (stage(stage_components=[component]), "a component can set num_mini_batch"),
        ],
    )
    check_refusals(
        lambda settings: make_pipeline(stage(), **settings),
        [({"gamma": 1.5}, "The pipeline has gamma=1.5"), (scheduler, "is of StepLR, but must be")],
    )
    check_refusals(LinearDecay, [(0, "steps=0")])
    parameter = torch.zeros(1, requires_grad=True)
    cannot = r"The pipeline's Adam cannot be built with \w+="
    check_refusals(
        lambda kwargs: Builder(optim.Adam, kwargs)(params=[parameter]),
        [({"lr": -1}, cannot), ({"rate": 1}, cannot)],
    )
