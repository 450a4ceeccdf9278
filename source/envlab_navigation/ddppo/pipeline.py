"""Training in stages: their losses, numbers of steps and settings.

The names and the inheritance are AllenAct's (0.5.4, ``allenact/utils/experiment_utils.py``): a
setting that a component of a stage leaves out is the stage's, and one that the stage leaves out is
the pipeline's. Steps are those of all ranks' environments. Optimizer and learning rate pass from
one stage to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from torch.optim.lr_scheduler import LambdaLR

from envlab.errors import CheckpointError, ConfigurationError, did_you_mean
from envlab_navigation.ddppo.schedules import Builder


@dataclass(kw_only=True)
class TrainingSettings:
    """Settings of a pipeline, a stage or a component; None inherits."""

    num_mini_batch: int | None = None
    """Minibatches that a rollout is divided into, by environments."""
    update_repeats: int | None = None
    """Passes over each rollout."""
    max_grad_norm: float | None = None
    """Norm that gradients are clipped to."""
    num_steps: int | None = None
    """Steps of each environment in a rollout."""
    gamma: float | None = None
    """Discount per step."""
    use_gae: bool | None = None
    """Whether advantages are GAE's; otherwise discounted returns less the values."""
    gae_lambda: float | None = None
    """GAE's decay."""
    advance_scene_rollout_period: int | None = None
    """AllenAct's; envlab's environments choose a house for each episode, so it has no effect."""
    save_interval: int | None = None
    """Steps between two checkpoints."""
    metric_accumulate_interval: int | None = None
    """AllenAct's; metrics here are those of each iteration."""


SETTINGS = tuple(one.name for one in fields(TrainingSettings))
PER_COMPONENT = ("num_mini_batch", "update_repeats", "max_grad_norm")
"""A component's own settings; all others concern the rollout, which components share."""
DEFAULTS = TrainingSettings(
    num_mini_batch=1,
    update_repeats=4,
    max_grad_norm=0.5,
    num_steps=128,
    gamma=0.99,
    use_gae=True,
    gae_lambda=0.95,
)
"""Defaults of a pipeline: AllenAct's for ObjectNav in RoboTHOR."""
LEAST = {"num_mini_batch": 1, "update_repeats": 1, "num_steps": 1}


@dataclass(kw_only=True)
class StageComponent(TrainingSettings):
    """Losses of a stage that are learned with separate settings.

    Attributes:
        losses: Name, loss and weight of each, set by the pipeline.
    """

    loss_names: Sequence[str]
    loss_weights: Sequence[float] | None = None
    """One for each loss; None: 1."""
    uuid: str = "rollout"
    training_settings: TrainingSettings | None = None
    """The settings, in place of the keywords; AllenAct has both."""
    losses: list[tuple[str, Any, float]] = field(default_factory=list, init=False)


@dataclass(kw_only=True)
class PipelineStage(TrainingSettings):
    """A part of a training, with its losses and its length."""

    loss_names: Sequence[str]
    max_stage_steps: int | Callable[[], int]
    """Steps after which the next stage begins, at the end of the rollout that reaches them."""
    loss_weights: Sequence[float] | None = None
    """One for each loss; None: 1."""
    teacher_forcing: Callable[[int], float] | None = None
    """Maps steps of the stage to the share of actions that are the expert's."""
    stage_components: Sequence[StageComponent] | None = None
    """Groups of losses that are learned one after the other; None: all losses together."""
    early_stopping_criterion: Callable[..., bool] | None = None
    """Called after each rollout with ``stage_steps``, ``total_steps`` and ``training_metrics``,
    means over all ranks by name; True ends the stage on all ranks."""
    training_settings: TrainingSettings | None = None
    """The settings, in place of the keywords; AllenAct has both."""
    components: list[StageComponent] = field(default_factory=list, init=False)
    """Components to learn from each rollout, in this order; set by the pipeline."""

    @property
    def limit(self) -> int:
        """Steps after which the stage ends."""
        given = self.max_stage_steps
        return int(given() if callable(given) else given)

    @property
    def needs_expert(self) -> bool:
        """Whether the expert must be asked in each step."""
        losses = [loss for component in self.components for _, loss, _ in component.losses]
        asks = any(getattr(loss, "needs_expert", False) for loss in losses)
        return asks or self.teacher_forcing is not None

    def teacher_forcing_share(self, stage_steps: int) -> float:
        """Return the share of actions that are the expert's after steps of the stage."""
        if self.teacher_forcing is None:
            return 0.0
        return min(max(float(self.teacher_forcing(stage_steps)), 0.0), 1.0)


@dataclass
class StageProgress:
    """Progress of a stage."""

    steps: int = 0
    """Steps of all ranks' environments so far."""
    rollouts: int = 0
    stopped_early: bool = False


@dataclass(kw_only=True)
class TrainingPipeline(TrainingSettings):
    """Stages, their settings, and their progress.

    Raises:
        ConfigurationError: If stages, losses or settings make no sense.
    """

    named_losses: Mapping[str, Any]
    """Losses by name; see :class:`envlab_navigation.ddppo.losses.Loss`."""
    pipeline_stages: Sequence[PipelineStage]
    optimizer_builder: Builder
    """Called with ``params``."""
    lr_scheduler_builder: Builder | None = None
    """For a ``LambdaLR``, whose ``lr_lambda`` takes the steps so far and returns a factor."""
    training_settings: TrainingSettings | None = None
    """The settings, in place of the keywords; AllenAct has both."""

    def __post_init__(self) -> None:
        if not self.pipeline_stages:
            raise ConfigurationError("The pipeline has no stages, but needs at least one.")
        self._progress = [StageProgress() for _ in self.pipeline_stages]
        _inherit(self, _Named("The pipeline", DEFAULTS))
        self.pipeline_stages = [
            self._settled(stage, f"Stage {number} of the pipeline")
            for number, stage in enumerate(self.pipeline_stages, 1)
        ]
        self._check_lr_scheduler()

    @property
    def total_steps(self) -> int:
        """Steps so far."""
        return sum(one.steps for one in self._progress)

    @property
    def stage_number(self) -> int:
        """The current stage, counted from 0; the number of stages when all are complete."""
        for number, (stage, done) in enumerate(
            zip(self.pipeline_stages, self._progress, strict=True)
        ):
            if not done.stopped_early and done.steps < stage.limit:
                return number
        return len(self.pipeline_stages)

    @property
    def stage(self) -> PipelineStage | None:
        """The current stage; None when all are complete."""
        number = self.stage_number
        return None if number == len(self.pipeline_stages) else self.pipeline_stages[number]

    @property
    def stage_steps(self) -> int:
        """Steps of the current stage so far; of the last one when all are complete."""
        return self._progress[min(self.stage_number, len(self._progress) - 1)].steps

    @property
    def is_finished(self) -> bool:
        """Whether all stages are complete."""
        return self.stage is None

    @property
    def max_steps(self) -> int:
        """Steps of all stages, if none stops early."""
        return sum(stage.limit for stage in self.pipeline_stages)

    @property
    def losses(self) -> list[Any]:
        """The losses that some stage uses."""
        used = {
            name for pipeline_stage in self.pipeline_stages for name in pipeline_stage.loss_names
        }
        return [loss for name, loss in self.named_losses.items() if name in used]

    def learning_rate_factor(self) -> float:
        """Return the factor of the optimizer's learning rates after the steps so far."""
        if self.lr_scheduler_builder is None:
            return 1.0
        return float(self.lr_scheduler_builder.kwargs["lr_lambda"](self.total_steps))

    def advance(self, frames: int) -> None:
        """Count a rollout: ``frames`` are steps of all ranks' environments."""
        done = self._progress[self.stage_number]
        done.steps += frames
        done.rollouts += 1

    def end_stage(self) -> None:
        """End the current stage before its last step."""
        self._progress[self.stage_number].stopped_early = True

    def state(self) -> dict[str, Any]:
        """Return the state that must survive a resume."""
        return {"stages": [vars(one).copy() for one in self._progress]}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned.

        Raises:
            CheckpointError: If it has another number of stages.
        """
        stages = state["stages"]
        if len(stages) != len(self._progress):
            raise CheckpointError(
                f"The checkpoint is of a pipeline with {len(stages)} stages, but this pipeline has "
                f"{len(self._progress)}. Resume with the experiment that the run began with."
            )
        self._progress = [StageProgress(**stage) for stage in stages]

    def _settled(self, stage: PipelineStage, where: str) -> PipelineStage:
        """Return a copy of a stage with inherited settings, and its losses in place of names."""
        stage = replace(stage)
        self._check_losses(stage, where)
        _inherit(stage, _Named(where, self))
        steps = stage.limit
        if steps < 1:
            raise ConfigurationError(
                f"{where} has max_stage_steps={steps}, but must last at least 1 step."
            )
        given = stage.stage_components or [
            StageComponent(loss_names=stage.loss_names, loss_weights=stage.loss_weights)
        ]
        for one in given:
            component = replace(one)
            within = where if stage.stage_components is None else f"{where}, in {one.uuid!r},"
            self._check_losses(component, within)
            _refuse_rollout_settings(component, within)
            _inherit(component, _Named(within, stage))
            weights = component.loss_weights or [1.0] * len(component.loss_names)
            component.losses = [
                (name, self.named_losses[name], float(weight))
                for name, weight in zip(component.loss_names, weights, strict=True)
            ]
            stage.components.append(component)
        return stage

    def _check_losses(self, part: PipelineStage | StageComponent, where: str) -> None:
        """Refuse a stage without losses, unknown losses, and weights of another length."""
        if isinstance(part.loss_names, str) or not part.loss_names:
            raise ConfigurationError(
                f"{where} has loss_names={part.loss_names!r}, but needs a list of at least one of "
                f"{', '.join(self.named_losses) or 'the losses in named_losses, which is empty'}."
            )
        for name in part.loss_names:
            if name not in self.named_losses:
                raise ConfigurationError(
                    f"{where} names the loss {name!r}, but named_losses has "
                    f"{', '.join(self.named_losses)}.{did_you_mean(name, self.named_losses)}"
                )
        weights = part.loss_weights
        if weights is not None and len(weights) != len(part.loss_names):
            raise ConfigurationError(
                f"{where} has {len(weights)} loss_weights for {len(part.loss_names)} loss_names "
                f"({', '.join(part.loss_names)}). Give one for each."
            )

    def _check_lr_scheduler(self) -> None:
        """Refuse a scheduler whose value at a step depends on all steps before it."""
        builder = self.lr_scheduler_builder
        if builder is None:
            return
        curve = builder.kwargs.get("lr_lambda")
        if builder.class_type is not LambdaLR or not callable(curve):
            name = getattr(builder.class_type, "__name__", str(builder.class_type))
            raise ConfigurationError(
                f"The pipeline's lr_scheduler_builder is of {name}, but must be "
                "Builder(LambdaLR, {'lr_lambda': f}), where f takes the steps so far and returns "
                "the factor of the learning rate, such as MultiLinearDecay([...])."
            )


@dataclass
class _Named:
    """The source of inherited settings, and the inheriting part, for errors."""

    name: str
    settings: TrainingSettings


def _inherit(part: TrainingSettings, source: _Named) -> None:
    """Fill in settings that a part leaves out, and refuse values that make no sense."""
    own = getattr(part, "training_settings", None)
    for name in SETTINGS:
        if getattr(part, name) is None and own is not None:
            setattr(part, name, getattr(own, name))
        if getattr(part, name) is None:
            setattr(part, name, getattr(source.settings, name))
        value = getattr(part, name)
        if name in LEAST and (not isinstance(value, int) or value < LEAST[name]):
            raise ConfigurationError(
                f"{source.name} has {name}={value!r}, but it must be a whole number of at least "
                f"{LEAST[name]}."
            )
        if name in ("gamma", "gae_lambda") and not 0.0 <= value <= 1.0:
            raise ConfigurationError(
                f"{source.name} has {name}={value!r}, but it must be from 0 to 1."
            )


def _refuse_rollout_settings(component: StageComponent, where: str) -> None:
    """Refuse a setting of a component that is about the rollout, which all components share."""
    own = component.training_settings
    for name in set(SETTINGS) - set(PER_COMPONENT):
        if getattr(component, name) is not None or getattr(own, name, None) is not None:
            raise ConfigurationError(
                f"{where} sets {name}, but a component can set {', '.join(PER_COMPONENT)} only: "
                f"set {name} on the stage."
            )
