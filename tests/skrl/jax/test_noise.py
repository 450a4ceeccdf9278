"""Draws of skrl on JAX: a function of seed, rank and timestep, and different where needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax: pip install -e '.[jax]'")
pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")

import jax
import jax.numpy as jnp
from gymnasium import spaces

from envlab.skrl.jax.noise import ActionNoise, drawing_anew, initialise

pytestmark = pytest.mark.long  # on PyTorch, draws are tested in the same ways
OBSERVATIONS = jnp.zeros((8, 3))
SPACES: dict[str, Any] = {
    "observation_space": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "state_space": None,
    "action_space": spaces.Box(-1.0, 1.0, (2,), np.float32),
}
NETWORK = [{"name": "net", "input": "OBSERVATIONS", "layers": [4], "activations": "tanh"}]


def policy() -> Any:
    from skrl.utils.model_instantiators.jax import gaussian_model

    return gaussian_model(**SPACES, network=NETWORK, output="ACTIONS")


def critic() -> Any:
    from skrl.utils.model_instantiators.jax import deterministic_model

    return deterministic_model(**SPACES, network=NETWORK, output="ONE")


def parameters(model: Any) -> np.ndarray:
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(model.state_dict.params)])


def draw(model: Any) -> np.ndarray:
    return np.asarray(model.act({"observations": OBSERVATIONS}, role="policy")[0])


def test_twin_critics_start_apart_and_as_the_seed_says():
    pairs = [[("critic_1", critic()), ("critic_2", critic())] for _ in range(3)]
    initialise(pairs[0], 7)
    initialise(pairs[1], 7)
    initialise(pairs[2], 8)
    first, second = (parameters(model) for _, model in pairs[0])
    assert not np.array_equal(first, second)
    assert np.array_equal(first, parameters(pairs[1][0][1]))
    assert not np.array_equal(first, parameters(pairs[2][0][1]))


def test_agents_and_ranks_draw_different_noise_and_a_timestep_the_same():
    models = [policy(), policy()]
    initialise([("policy", model) for model in models], 1)
    noise = ActionNoise(models, seed=1)
    noise.start(5)
    first = [draw(model) for model in models]
    again = draw(models[0])
    assert not np.array_equal(first[0], again)
    noise.start(5)
    assert np.array_equal(draw(models[0]), first[0])
    noise.start(6)
    assert not np.array_equal(draw(models[0]), first[0])
    inputs = {"observations": OBSERVATIONS}
    mean = [model.apply(model.state_dict.params, inputs, "")[0] for model in models]
    assert not np.allclose(first[0] - mean[0], first[1] - mean[1])
    ActionNoise(models, seed=2).start(5)  # the other rank's
    assert not np.array_equal(draw(models[0]), first[0])


def test_keys_differ_by_rank_and_source_at_any_time_and_reading_them_draws_nothing():
    found = []
    for seed in (1, 1, 2):
        models = [policy(), policy()]
        noise = ActionNoise(models, seed=seed)
        noise.start(int(10 * len(found)))
        # private: skrl's own counter of draws
        counts = [model._g_i for model in models]
        found.append([tuple(key.tolist()) for key in noise.keys().values()])
        # private: skrl's own counter of draws
        assert [model._g_i for model in models] == counts
    assert found[0] == found[1]  # reported by an audit
    assert len({*found[0], *found[2]}) == 4


def test_random_actions_follow_the_seeded_generator():
    model = policy()
    initialise([("policy", model)], 1)
    drawn = []
    for seed in (3, 3, 4):
        np.random.seed(seed)
        drawn.append(np.asarray(model.random_act({"observations": OBSERVATIONS})[0]))
    assert drawn[0].shape == (8, 2)
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def losses(update: Any, actor: Any, value: Any, params: Any) -> list[float]:
    """Return the losses of three updates that differ in their noise only."""
    inputs = {"observations": OBSERVATIONS}
    state = actor.state_dict
    given = (actor.act, value, value, state, params, params, 0.2)
    return [float(update(*given, dict(inputs))[1]) for _ in range(3)]


def test_sac_sees_new_noise_in_every_update():
    # private: skrl's own update, for comparison
    from skrl.agents.jax.sac.sac import _update_policy as stock

    update = drawing_anew(stock)
    actor = policy()
    initialise([("policy", actor)], 1)
    noise = ActionNoise([actor], seed=1)
    state = critic()
    initialise([("critic_1", state)], 1)

    def value(inputs: dict[str, Any], **_: Any) -> tuple[jax.Array, dict[str, Any]]:
        return inputs["taken_actions"].sum(axis=1, keepdims=True), {}

    noise.start(0)
    assert len(set(losses(stock, actor, value, state.state_dict))) == 1  # skrl's own
    noise.start(3)
    first = losses(update, actor, value, state.state_dict)
    assert len(set(first)) == 3
    # Whether JAX has compiled before changes nothing.
    jax.clear_caches()
    noise.start(3)
    assert losses(update, actor, value, state.state_dict) == first
