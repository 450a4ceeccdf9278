"""Mutations of children: one each, drawn as data on one process, and applied on all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from envlab.errors import ConfigurationError
from envlab_populations.evolution.architecture import EVOLVING_ACTIVATIONS, NetworkCfg
from envlab_populations.evolution.cfg import ALIASES, NOISY, BoundsCfg, MutationsCfg
from envlab_populations.evolution.member import Genes, Member
from envlab_populations.evolution.networks import preserves_function
from envlab_populations.population.exploration import scaled

KINDS = ("architecture", "parameters", "activation", "rl_hp")
"""Kinds of mutations, besides none."""
KEEP_ACTIVATION = ("ppo", *NOISY)
"""Algorithms whose activation functions AgileRL leaves alone."""
SHARE = 0.1
"""Share of a weight matrix's entries that noise changes."""
SUPER_PROB, RESET_PROB = 0.05, 0.05
"""Shares of those entries that get noise of :data:`SUPER_SD` times their size, and are redrawn."""
SUPER_SD = 10.0
LIMIT = 1e6
"""Largest absolute value of an entry that noise has changed."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A mutation as plain data."""

    text: str
    """Its description."""
    genes: Genes
    """The member's new genes."""
    noise: tuple[int, ...] = ()
    """Positions of the weight matrices of its policy that get noise."""
    seed: int = 0
    """Seed of new weights and noise."""


class Mutations:
    """Draws a class of mutation for each child by relative probabilities, and applies it.

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
        """Return a mutation for a member."""
        names, odds = list(self.odds), np.array(list(self.odds.values()), dtype=float)
        kind = names[int(self.rng.choice(len(names), p=odds / odds.sum()))]
        seed = int(self.rng.integers(2**31))
        genes = member.genes
        if kind == "architecture":
            shape, text = genes.architecture.mutated(
                self._bounds, self._cfg.new_layer_prob, self.rng
            )
            if text.startswith("add") and not preserves_function(shape):
                reason = "layer norm" if shape.layer_norm else shape.activation
                text += f" ({reason}: another function)"
            return Change(
                text=text, genes=dataclasses.replace(genes, architecture=shape), seed=seed
            )
        if kind == "parameters":
            count = len(_matrices(member))
            chosen = self.rng.permutation(count)[: int(self.rng.integers(1, count + 1))]
            return Change(text="parameters", genes=genes, noise=tuple(map(int, chosen)), seed=seed)
        if kind == "activation" and member.nursery.cfg.algorithm not in KEEP_ACTIVATION:
            return self._other_activation(genes)
        if kind == "rl_hp" and self._selection:
            return self._other_hyperparameter(genes)
        return Change(text="none", genes=genes)

    def apply(self, member: Member, change: Change) -> None:
        """Apply a mutation to a member."""
        if change.genes != member.genes:
            member.become(change.genes, change.seed)
        member.mutation = change.text
        generator = torch.Generator().manual_seed(change.seed)
        matrices = _matrices(member)
        for position in change.noise:
            self.add_noise(matrices[position], generator)

    def _other_activation(self, genes: Genes) -> Change:
        now = genes.architecture.activation
        new = str(self.rng.choice([name for name in EVOLVING_ACTIVATIONS if name != now]))
        shape = dataclasses.replace(genes.architecture, activation=new)
        return Change(text=new, genes=dataclasses.replace(genes, architecture=shape))

    def _other_hyperparameter(self, genes: Genes) -> Change:
        name = str(self.rng.choice(list(self._selection)))
        bounds, key = self._selection[name], ALIASES.get(name, name)
        old = genes.hyperparameters[key]
        factor = bounds.grow if self.rng.random() < 0.5 else bounds.shrink
        new = scaled(old, factor, bounds.min, bounds.max, is_whole=isinstance(old, int))
        values = {**genes.hyperparameters, key: new}
        text = f"{name} {old:.3g} to {new:.3g}" if new != old else "none"
        return Change(text=text, genes=dataclasses.replace(genes, hyperparameters=values))

    def add_noise(self, weight: torch.Tensor, generator: torch.Generator) -> None:
        """Change a tenth of a matrix's entries: most a little, some much, and some are redrawn."""
        shape = weight.shape
        chosen = torch.rand(shape, generator=generator) < SHARE
        band = torch.rand(shape, generator=generator)
        noise = torch.randn(shape, generator=generator)
        old = weight.detach().cpu()
        much, anew = band < SUPER_PROB, (band >= SUPER_PROB) & (band < SUPER_PROB + RESET_PROB)
        new = old + noise * old.abs() * torch.where(much, SUPER_SD, self._cfg.mutation_sd)
        new = torch.where(anew, noise, new).clamp(-LIMIT, LIMIT)
        with torch.no_grad():
            weight.copy_(torch.where(chosen, new, old))


def _matrices(member: Member) -> list[torch.Tensor]:
    """Return the weight matrices of a member's policy."""
    return [p for p in member.policy.net.parameters() if p.dim() == 2]
