"""Mutations of children: one each, drawn as data on one process."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from envlab.errors import ConfigurationError
from envlab_populations.evolution.cfg import ALIASES, NOISY, BoundsCfg, MutationsCfg
from envlab_populations.evolution.networks import preserves_function
from envlab_populations.population.architecture import EVOLVING_ACTIVATIONS, NetworkCfg
from envlab_populations.population.member import Change, Genes, Member
from envlab_populations.population.ranges import scaled

KINDS = ("architecture", "parameters", "activation", "rl_hp")
"""Kinds of mutations, besides none."""
KEEP_ACTIVATION = ("ppo", *NOISY)
"""Algorithms whose activation functions AgileRL leaves alone."""


class Mutations:
    """Draws a class of mutation for each child by relative probabilities.

    Attributes:
        odds: The probabilities by class.
        rng: Its random generator.
    """

    def __init__(
        self,
        cfg: MutationsCfg,
        selection: Mapping[str, BoundsCfg],
        bounds: NetworkCfg,
        rand_seed: int | None = None,
    ) -> None:
        """Store the odds.

        Args:
            cfg: The odds.
            selection: Bounds by hyper-parameter that evolves.
            bounds: Bounds of the architecture.
            rand_seed: Seed of the draws.

        Raises:
            ConfigurationError: If nothing can be drawn.
        """
        self.odds = {"none": cfg.no_mutation} | {kind: getattr(cfg, kind) for kind in KINDS}
        if sum(self.odds.values()) <= 0:
            raise ConfigurationError(
                f"The probabilities of mutations (no_mutation, {', '.join(KINDS)}) sum to zero, so "
                "no mutation can be drawn. Set no_mutation to 1 for copies alone."
            )
        self._cfg, self._selection, self._bounds = cfg, dict(selection), bounds
        self.rng = np.random.default_rng(rand_seed)

    def draw(self, member: Member) -> Change:
        """Return a mutation for a member, whose networks may be on another process."""
        names, odds = list(self.odds), np.array(list(self.odds.values()), dtype=float)
        kind = names[int(self.rng.choice(len(names), p=odds / odds.sum()))]
        seed, genes = int(self.rng.integers(2**31)), member.genes
        shape = genes.architecture
        assert shape is not None
        if kind == "architecture":
            shape, text = shape.mutated(self._bounds, self._cfg.new_layer_prob, self.rng)
            if text.startswith("add") and not preserves_function(shape):
                reason = "layer norm" if shape.layer_norm else shape.activation
                text += f" ({reason}: another function)"
            changed = dataclasses.replace(genes, architecture=shape)
            return Change(text=text, genes=changed, seed=seed)
        if kind == "parameters":
            seen = member.nursery.env.spaces["agent"].observation_space
            num_policies = len(getattr(seen, "observed", [seen]))  # a crew has one for each agent
            count = num_policies * (len(shape.hidden) + 1)
            chosen = self.rng.permutation(count)[: int(self.rng.integers(1, count + 1))]
            noise, deviation = tuple(map(int, chosen)), self._cfg.mutation_sd
            return Change(text=kind, genes=genes, noise=noise, deviation=deviation, seed=seed)
        if kind == "activation" and member.nursery.cfg.algorithm not in KEEP_ACTIVATION:
            others = [name for name in EVOLVING_ACTIVATIONS if name != shape.activation]
            new = str(self.rng.choice(others))
            shape = dataclasses.replace(shape, activation=new)
            return Change(text=new, genes=dataclasses.replace(genes, architecture=shape))
        if kind == "rl_hp" and self._selection:
            return self._other_hyperparameter(genes)
        return Change(text="none", genes=genes)

    def _other_hyperparameter(self, genes: Genes) -> Change:
        name = str(self.rng.choice(list(self._selection)))
        bounds, key = self._selection[name], ALIASES.get(name, name)
        old = genes.hyperparameters[key]
        factor = bounds.grow if self.rng.random() < 0.5 else bounds.shrink
        new = scaled(old, factor, bounds.min, bounds.max, is_whole=isinstance(old, int))
        values = {**genes.hyperparameters, key: new}
        text = f"{name} {old:.3g} to {new:.3g}" if new != old else "none"
        return Change(text=text, genes=dataclasses.replace(genes, hyperparameters=values))
