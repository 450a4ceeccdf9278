"""Terms in one line are those of Isaac Lab's spelling."""

from envlab.envs import UniformNoiseCfg, mdp, terms
from envlab.envs.managers import (
    EventTermCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)


def test_a_term_in_one_line_is_the_one_in_full():
    noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
    assert terms.observation(mdp.sensor, 0.1, clip=(-1.0, 1.0), scale=2.0, asset_cfg="imu") == (
        ObservationTermCfg(
            func=mdp.sensor, noise=noise, clip=(-1.0, 1.0), scale=2.0, params={"asset_cfg": "imu"}
        )
    )
    assert terms.observation(mdp.last_action) == ObservationTermCfg(func=mdp.last_action)
    assert terms.reward(mdp.is_alive, 2.0) == RewardTermCfg(func=mdp.is_alive, weight=2.0)
    assert terms.termination(mdp.time_out, time_out=True) == (
        TerminationTermCfg(func=mdp.time_out, time_out=True)
    )
    event, params = mdp.push_by_setting_velocity, {"velocity_range": {}}
    assert terms.at_startup(event, **params) == (
        EventTermCfg(func=event, mode="startup", params=params)
    )
    assert terms.at_reset(event, **params) == EventTermCfg(func=event, mode="reset", params=params)
    assert terms.at_intervals((1.0, 3.0), event, **params) == (
        EventTermCfg(func=event, mode="interval", interval_range_s=(1.0, 3.0), params=params)
    )


def test_a_functions_own_parameter_may_be_called_weight_or_noise():
    assert terms.reward(mdp.is_alive, 2.0, weight=3.0).params == {"weight": 3.0}
    assert terms.observation(mdp.sensor, noise=0.1).params == {"noise": 0.1}
