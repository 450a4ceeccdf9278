# mypy: ignore-errors
"""Experiments on Gym's CartPole, as of a user's own tasks, each with other parts of AllenAct."""

import gym
import numpy as np
from allenact.algorithms.onpolicy_sync.losses.imitation import Imitation
from allenact.algorithms.onpolicy_sync.losses.ppo import PPO, PPOConfig, PPOValue
from allenact.algorithms.onpolicy_sync.policy import ActorCriticModel
from allenact.base_abstractions.distributions import (
    CategoricalDistr,
    ConditionalDistr,
    SequentialDistr,
)
from allenact.base_abstractions.experiment_config import ExperimentConfig, MachineParams
from allenact.base_abstractions.misc import ActorCriticOutput, RLStepResult
from allenact.base_abstractions.preprocessor import Preprocessor, SensorPreprocessorGraph
from allenact.base_abstractions.sensor import ExpertActionSensor, Sensor, SensorSuite
from allenact.base_abstractions.task import Task, TaskSampler
from allenact.embodiedai.aux_losses.losses import (
    CPCA2Loss,
    InverseDynamicsLoss,
    MultiAuxTaskNegEntropyLoss,
)
from allenact.embodiedai.models.basic_models import RNNActorCritic
from allenact.embodiedai.models.fusion_models import AverageFusion
from allenact.embodiedai.models.visual_nav_models import VisualNavActorCritic
from allenact.utils.experiment_utils import (
    Builder,
    EarlyStoppingCriterion,
    LinearDecay,
    MultiLinearDecay,
    PipelineStage,
    TrainingPipeline,
)
from torch import cat, nn, optim
from torch.optim.lr_scheduler import LambdaLR


class PoleSensor(Sensor):
    """Where cart and pole are, and how fast."""

    def __init__(self, uuid="pole"):
        super().__init__(uuid, gym.spaces.Box(-np.inf, np.inf, (4,), np.float32))

    def get_observation(self, env, task, *args, **kwargs):
        return task.seen


class PoleTask(Task):
    """An episode; the expert pushes the way the pole falls."""

    def __init__(self, env, sensors, max_steps=20):
        self.seen, self.fell = env.reset(), False
        super().__init__(env, sensors, {}, max_steps=max_steps)

    @property
    def action_space(self):
        return self.env.action_space

    def render(self, mode="rgb", *args, **kwargs):
        raise NotImplementedError

    def _step(self, action):
        self.seen, reward, self.fell, info = self.env.step(action)
        return RLStepResult(self.get_observations(), reward, self.is_done(), info)

    def reached_terminal_state(self):
        return self.fell

    def close(self):
        pass

    def query_expert(self, **kwargs):
        return int(self.seen[2] + self.seen[3] > 0), True


class PoleSampler(TaskSampler):
    """Episodes without end, or so many."""

    last_sampled_task, all_observation_spaces_equal = None, True

    def __init__(self, sensors, seed, task_class=PoleTask, max_tasks=None):
        self.env, self.sensors, self.task_class = gym.make("CartPole-v1"), sensors, task_class
        self.max_tasks, self.left = max_tasks, max_tasks
        self.set_seed(seed)

    @property
    def length(self):
        return float("inf") if self.left is None else self.left

    def next_task(self, force_advance_scene=False):
        if self.left is not None:
            if self.left == 0:
                return None
            self.left -= 1
        return self.task_class(self.env, self.sensors)

    def close(self):
        self.env.close()

    def reset(self):
        self.left = self.max_tasks

    def set_seed(self, seed):
        self.env.seed(seed)


class Poles(ExperimentConfig):
    """Four poles; experiments add a pipeline."""

    SENSORS = [PoleSensor()]
    TASK = PoleTask

    @classmethod
    def tag(cls):
        return cls.__name__

    @classmethod
    def machine_params(cls, mode="train", **kwargs):
        return {"nprocesses": 4 if mode == "train" else 0, "devices": []}

    @classmethod
    def create_model(cls, **kwargs):
        return RNNActorCritic(
            "pole",
            gym.spaces.Discrete(2),
            SensorSuite(cls.SENSORS).observation_spaces,
            hidden_size=8,
        )

    @classmethod
    def make_sampler_fn(cls, **kwargs):
        return PoleSampler(**kwargs)

    def train_task_sampler_args(self, process_ind, total_processes, seeds=None, **kwargs):
        return {"sensors": self.SENSORS, "seed": seeds[process_ind], "task_class": self.TASK}

    @staticmethod
    def pipeline(named_losses, stages, **settings):
        usual = {"num_mini_batch": 2, "update_repeats": 2, "max_grad_norm": 0.5, "num_steps": 16}
        usual |= {"gamma": 0.99, "use_gae": True, "gae_lambda": 0.95, "save_interval": 10_000}
        usual |= {"advance_scene_rollout_period": None, "metric_accumulate_interval": 128}
        return TrainingPipeline(
            named_losses=named_losses,
            pipeline_stages=stages,
            optimizer_builder=Builder(optim.Adam, {"lr": 0.01}),
            **{**usual, **settings},
        )


class PolePPO(Poles):
    """PPO whose learning rate falls in two lines, and which is validated."""

    @classmethod
    def machine_params(cls, mode="train", **kwargs):
        return {"nprocesses": {"train": 4, "valid": 1}.get(mode, 0), "devices": []}

    def valid_task_sampler_args(self, process_ind, total_processes, seeds=None, **kwargs):
        return {"sensors": self.SENSORS, "seed": 5, "max_tasks": 2}

    @classmethod
    def training_pipeline(cls, **kwargs):
        lines = [LinearDecay(steps=128, endp=0.5), LinearDecay(steps=256, startp=0.5, endp=0.0)]
        return cls.pipeline(
            {"ppo": Builder(PPO, kwargs={}, default=PPOConfig)},
            [PipelineStage(loss_names=["ppo"], max_stage_steps=384)],
            lr_scheduler_builder=Builder(LambdaLR, {"lr_lambda": MultiLinearDecay(lines)}),
            save_interval=192,
        )


class Squares(Preprocessor):
    def __init__(self):
        space = gym.spaces.Box(-np.inf, np.inf, (8,), np.float32)
        super().__init__(input_uuids=["pole"], output_uuid="squares", observation_space=space)

    def to(self, device):
        return self

    def process(self, obs, *args, **kwargs):
        return cat((obs["pole"], obs["pole"] ** 2), dim=-1)


class After(EarlyStoppingCriterion):
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, stage_steps, total_steps, training_metrics):
        return stage_steps >= self.steps


class PolePreprocessor(Poles):
    """Observations that a preprocessor makes of the sensor's; values first, then PPO."""

    @classmethod
    def machine_params(cls, mode="train", **kwargs):
        return MachineParams(
            nprocesses=4 if mode == "train" else 0,
            devices=[],
            sensor_preprocessor_graph=SensorPreprocessorGraph(
                source_observation_spaces=SensorSuite(cls.SENSORS).observation_spaces,
                preprocessors=[Builder(Squares, {})],
            ),
        )

    @classmethod
    def create_model(cls, sensor_preprocessor_graph, **kwargs):
        return RNNActorCritic(
            "squares",
            gym.spaces.Discrete(2),
            sensor_preprocessor_graph.observation_spaces,
            hidden_size=8,
            rnn_type="LSTM",
        )

    @classmethod
    def training_pipeline(cls, **kwargs):
        end = After(128)
        return cls.pipeline(
            {"value": PPOValue(clip_param=0.1), "ppo": PPO(**PPOConfig)},
            [
                PipelineStage(
                    loss_names=["value"], max_stage_steps=10_000, early_stopping_criterion=end
                ),
                PipelineStage(loss_names=["ppo"], max_stage_steps=256, num_steps=32),
            ],
        )


ACTIONS = gym.spaces.Dict(higher=gym.spaces.Discrete(2), lower=gym.spaces.Discrete(2))


class TwoLevels(ActorCriticModel):
    def __init__(self, observation_space):
        super().__init__(ACTIONS, observation_space)
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.higher, self.value = nn.Linear(16, 2), nn.Linear(16, 1)
        self.known, self.lower = nn.Embedding(2, 4), nn.Linear(20, 2)

    def _recurrent_memory_specification(self):
        return None

    def forward(self, observations, memory, prev_actions, masks):
        x = self.body(observations["pole"])
        first = ConditionalDistr(
            distr_conditioned_on_input_fn_or_instance=CategoricalDistr(logits=self.higher(x)),
            action_group_name="higher",
        )
        second = ConditionalDistr(
            distr_conditioned_on_input_fn_or_instance=lambda higher, **_: CategoricalDistr(
                logits=self.lower(cat((x, self.known(higher)), -1))
            ),
            action_group_name="lower",
        )
        return ActorCriticOutput(SequentialDistr(first, second), self.value(x), {}), None


class LevelTask(PoleTask):
    @property
    def action_space(self):
        return ACTIONS

    def _step(self, action):
        return super()._step(int(action["lower"]))

    def query_expert(self, expert_sensor_group_name=None, **kwargs):
        action, is_known = super().query_expert()
        return (1 if expert_sensor_group_name == "higher" else action), is_known


class PoleLevels(Poles):
    """Actions of two levels: whether to follow the pole, and given that, which side is pushed."""

    SENSORS = [PoleSensor(), ExpertActionSensor(action_space=ACTIONS)]
    TASK = LevelTask

    @classmethod
    def create_model(cls, **kwargs):
        return TwoLevels(SensorSuite(cls.SENSORS).observation_spaces)

    @classmethod
    def training_pipeline(cls, **kwargs):
        ppo = PPO(entropy_method_name="conditional_entropy", **PPOConfig)
        return cls.pipeline(
            {"imitation": Imitation(cls.SENSORS[1]), "ppo": ppo},
            [PipelineStage(loss_names=["imitation", "ppo"], max_stage_steps=384)],
        )


TASKS = [InverseDynamicsLoss.UUID, CPCA2Loss.UUID]


class Beliefs(VisualNavActorCritic):
    def __init__(self, observation_space):
        super().__init__(
            action_space=gym.spaces.Discrete(2),
            observation_space=observation_space,
            hidden_size=8,
            multiple_beliefs=True,
            beliefs_fusion=AverageFusion,
            auxiliary_uuids=TASKS,
        )
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.create_state_encoders(
            obs_embed_size=8,
            prev_action_embed_size=4,
            num_rnn_layers=1,
            rnn_type="GRU",
            add_prev_actions=True,
            add_prev_action_null_token=True,
        )
        self.create_actorcritic_head()
        self.create_aux_models(obs_embed_size=8, action_embed_size=4)

    def forward_encoder(self, observations):
        return self.encoder(observations["pole"])


class PoleAuxiliary(Poles):
    """Auxiliary tasks, each with its own belief, as in navigation's networks."""

    @classmethod
    def create_model(cls, **kwargs):
        return Beliefs(SensorSuite(cls.SENSORS).observation_spaces)

    @classmethod
    def training_pipeline(cls, **kwargs):
        losses = {
            "ppo": PPO(**PPOConfig),
            "inverse": InverseDynamicsLoss(subsample_rate=1.0),
            "cpca": CPCA2Loss(subsample_rate=1.0),
            "entropy": MultiAuxTaskNegEntropyLoss(TASKS),
        }
        stage = PipelineStage(
            loss_names=list(losses), loss_weights=[1.0, 0.1, 0.1, 0.01], max_stage_steps=256
        )
        return cls.pipeline(losses, [stage])
