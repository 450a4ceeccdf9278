"""Managers of :class:`envlab.envs.ManagerEnv`, with Isaac Lab's names: one concern each.

A manager has terms, which are functions or classes with parameters (``term``, ``function_term``),
and calls them in the order of docs/step.md. Each module has the configuration of its terms and the
manager; ``_observation_memory`` adds delays, histories and biases. The terms that tasks share are
:mod:`envlab.envs.mdp`.
"""

from envlab.envs.managers.action import ActionManager, ActionTerm, ActionTermCfg
from envlab.envs.managers.command import CommandManager, CommandTerm, CommandTermCfg
from envlab.envs.managers.curriculum import CurriculumManager, CurriculumTermCfg
from envlab.envs.managers.event import EventManager, EventTermCfg
from envlab.envs.managers.function_term import FunctionTermCfg, ManagerTermBase
from envlab.envs.managers.metrics import MetricsManager, MetricsTermCfg
from envlab.envs.managers.observation import (
    ObservationGroupCfg,
    ObservationManager,
    ObservationTermCfg,
)
from envlab.envs.managers.reward import RewardManager, RewardTermCfg
from envlab.envs.managers.sensor import SensorManager, SensorTerm, SensorTermCfg
from envlab.envs.managers.term import TermCfg
from envlab.envs.managers.termination import (
    SuccessManager,
    SuccessTermCfg,
    TerminationManager,
    TerminationTermCfg,
)

__all__ = [
    "ActionManager",
    "ActionTerm",
    "ActionTermCfg",
    "CommandManager",
    "CommandTerm",
    "CommandTermCfg",
    "CurriculumManager",
    "CurriculumTermCfg",
    "EventManager",
    "EventTermCfg",
    "FunctionTermCfg",
    "ManagerTermBase",
    "MetricsManager",
    "MetricsTermCfg",
    "ObservationGroupCfg",
    "ObservationManager",
    "ObservationTermCfg",
    "RewardManager",
    "RewardTermCfg",
    "SensorManager",
    "SensorTerm",
    "SensorTermCfg",
    "SuccessManager",
    "SuccessTermCfg",
    "TermCfg",
    "TerminationManager",
    "TerminationTermCfg",
]
