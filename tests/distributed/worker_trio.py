"""One of three ranks for the tests of this folder, which writes argv[1]/rank<i>.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from envlab.distributed.audit import audit
from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import wrap_actor_critic
from envlab.distributed.statistics import RunningMoments
from envlab.errors import RankDivergenceError


def audits(context: DistributedContext) -> dict[str, str | None]:
    """Return the audits' messages for equal and unequal values."""
    rank = context.rank

    def message(equal: dict[str, Any], different: dict[str, Any]) -> str | None:
        try:
            audit(context, equal, different, iteration=7)
        except RankDivergenceError as error:
            return str(error)
        return None

    weight = torch.linspace(-1.0, 1.0, 6).reshape(2, 3)
    changed = weight.clone()
    if rank == 1:
        changed[1, 2] = torch.nextafter(changed[1, 2], torch.tensor(2.0))  # the smallest change
    own = {"streams": torch.tensor([3 * rank, 3 * rank + 1])}
    lost_key = {"actor": {"w": weight}} | ({} if rank == 2 else {"rate": 0.1})
    return {
        "equal": message({"actor": {"w": weight}, "rate": 0.1, "steps": [1, 2]}, own),
        "changed": message({"actor": {"w": changed, "v": weight}}, own),
        "two changed": message({"a": changed, "b": [weight, rank]}, own),
        "same streams": message({}, {"streams": torch.tensor([0 if rank < 2 else 9])}),
        "missing": message(lost_key, own),
    }


def running_moments(context: DistributedContext) -> list[list[float]]:
    """Return mean, variance and count after each of two batches, the first of unequal sizes."""
    samples = [[0.0, 2.0], [4.0], [6.0, 8.0, 10.0]][context.rank]
    moments, found = RunningMoments((), context), []
    for batch in (samples, [5.0 + context.rank]):
        moments.add(torch.tensor(batch))
        found.append([float(values) for values in moments.buffers()])
    return found


def updates(context: DistributedContext, weights: dict[str, Any] | None, steps: range) -> Any:
    """Return the parameters after some updates of a fresh DDP module."""
    torch.manual_seed(0)
    both = nn.ModuleDict({name: mlp() for name in ("actor", "critic")})
    if weights is not None:
        both.load_state_dict(weights)
    actor, critic = wrap_actor_critic(both["actor"], both["critic"])
    optimizer = torch.optim.SGD(both.parameters(), lr=0.1)
    for step in steps:
        obs = torch.randn(16, 4, generator=torch.Generator().manual_seed(10 * step + context.rank))
        optimizer.zero_grad()
        (actor(obs).square().mean() + critic(obs).square().mean()).backward()
        optimizer.step()
    return {name: values.clone() for name, values in both.state_dict().items()}


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 32), nn.ELU(), nn.Linear(32, 32), nn.ELU(), nn.Linear(32, 1))


def main() -> None:
    context = DistributedContext.create(distributed=True, device="cpu")
    whole = updates(context, None, range(4))
    resumed = updates(context, updates(context, None, range(2)), range(2, 4))
    found = {
        "audits": audits(context),
        "moments": running_moments(context),
        "resumed differently": [name for name in whole if not whole[name].equal(resumed[name])],
    }
    Path(sys.argv[1], f"rank{context.rank}.json").write_text(json.dumps(found))
    context.close()


if __name__ == "__main__":
    main()
