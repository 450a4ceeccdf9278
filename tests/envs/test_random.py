"""Draws follow from seed, stream name, global environment index and tick, and nothing else."""

from __future__ import annotations

import math

import pytest
import torch

from envlab.envs.random import EnvRandom, RandomStream, mix
from envlab.sim import host
from tests.operations import Operations

CPU = torch.device("cpu")
MASK = 0xFFFFFFFFFFFFFFFF
# Reference output of Vigna's splitmix64.c for the seed 1234567.
KNOWN_ANSWERS = [
    *(6457827717110365317, 3203168211198807973, 9817491932198370423),
    *(4593380528125082431, 16408922859458223821),
]


def splitmix64(advanced: int) -> int:
    """Return the output for a state that has advanced, by Python's own integers."""
    z = ((advanced ^ (advanced >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def unsigned(values: torch.Tensor) -> list[int]:
    return [value & MASK for value in values.tolist()]


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def streams(first_env: int = 0, num_envs: int = 8, seed: int = 42, tick: int = 1) -> EnvRandom:
    random = EnvRandom(seed, first_env, num_envs, CPU)
    random.tick = tick
    return random


def stream_from_state(state: int) -> RandomStream:
    """Return a stream whose first environment starts from a given SplitMix64 state."""
    stream = streams(num_envs=1, tick=0).stream("any")
    stream.set_keys(torch.tensor([signed(state)]))
    return stream


def test_bits_are_the_published_splitmix64_outputs_also_in_parts():
    assert unsigned(stream_from_state(1234567).bits(5)[0]) == KNOWN_ANSWERS
    stream = stream_from_state(1234567)
    assert [*unsigned(stream.bits(2)[0]), *unsigned(stream.bits(3)[0])] == KNOWN_ANSWERS


def test_other_streams_do_not_shift_a_stream():
    alone, crowded = streams(), streams()
    crowded.stream("events").normal(0.0, 1.0, 7)
    first, late = (each.stream("obs").uniform(0.0, 1.0, 4) for each in (alone, crowded))
    assert torch.equal(first, late)


def test_streams_environments_ticks_and_draws_differ():
    random = streams(num_envs=64)
    draws = [random.stream(name).bits(8) for name in ("a", "b")]
    draws.append(random.stream("a").bits(8))
    random.advance()
    draws.append(random.stream("a").bits(8))
    everything = torch.cat(draws).flatten()
    assert everything.unique().numel() == everything.numel() == 4 * 64 * 8


def test_a_tick_forgets_how_much_was_drawn_in_the_one_before():
    random, other = streams(tick=1), streams(tick=1)
    random.stream("a").bits(5)
    for each in (random, other):
        each.advance()
    assert torch.equal(random.stream("a").bits(2), other.stream("a").bits(2))


def test_uniform_is_the_upper_24_bits():
    expected = [(output >> 40) / 2**24 * 4.0 - 1.0 for output in KNOWN_ANSWERS]
    draws = stream_from_state(1234567).uniform(-1.0, 3.0, 5)[0].tolist()
    assert draws == pytest.approx(expected, abs=1e-6)


def test_normal_is_box_muller_of_the_uniform_bits():
    first, second = (output >> 40 for output in KNOWN_ANSWERS[:2])
    radius = math.sqrt(-2.0 * math.log1p(-first / 2**24))
    expected = 1.0 + 0.5 * radius * math.cos(2.0 * math.pi * second / 2**24)
    drawn = stream_from_state(1234567).normal(1.0, 0.5, 1).item()
    assert drawn == pytest.approx(expected, abs=1e-6)


def test_integers_cover_their_range():
    draws = streams(num_envs=5000).stream("a").integers(-2, 3)
    assert draws.dtype == torch.int64
    counts = torch.bincount(draws + 2, minlength=5)
    assert len(counts) == 5
    assert counts.min() > 880  # 1000 expected, standard deviation 28
    assert counts.max() < 1120


def test_torchs_mix_equals_splitmix64():
    """Against Python's integers; a GPU runs this function, and a CPU another."""
    states = [0, 1, 1234567, 2**62, 2**63, 2**64 - 1]
    mixed = mix(torch.tensor([signed(state) for state in states]))
    assert unsigned(mixed) == [splitmix64(state) for state in states]


def draws_of_ticks(random: EnvRandom) -> list[torch.Tensor]:
    """Draw as a run does: the same in most ticks, now and then more, and after a new seed."""
    drawn = []
    for tick in range(9):
        if tick == 6:
            random.seed(11)
        random.advance()
        first, second = random.stream("first"), random.stream("second")
        drawn.append(first.uniform(-1.0, 2.0, 3))
        if tick % 4 == 3:
            drawn.append(second.bits(2))
        drawn.append(second.ranges([(0.0, 1.0), (-5.0, 5.0)]))
        drawn += [first.normal(0.0, 2.0, 1), first.integers(0, 7), second.uniform(0.5, 0.5, 1)]
    return drawn


def test_draws_made_ahead_are_those_made_one_by_one(monkeypatch):
    expected = draws_of_ticks(EnvRandom(7, 3, 5, CPU))
    monkeypatch.setattr(host, "HOST", set())
    random = EnvRandom(7, 3, 5, CPU)
    for ours, theirs in zip(draws_of_ticks(random), expected, strict=True):
        assert torch.equal(ours, theirs)


def test_a_tick_with_the_draws_of_the_last_one_is_one_batch(monkeypatch):
    monkeypatch.setattr(host, "HOST", set())
    random = EnvRandom(7, 0, 5, CPU)
    streams = [random.stream(f"stream {number}") for number in range(20)]
    counts = []
    for _ in range(3):
        random.advance()
        with Operations() as operations:
            for stream in streams:
                stream.uniform(0.0, 1.0, 3)
        counts.append(operations.count)
    assert counts[0] > 200
    assert counts[2] < 20
