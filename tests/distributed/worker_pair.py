"""One of two ranks for the tests of this folder, which writes ``rank<i>.pt`` to argv[1]."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from envlab.distributed import gathering
from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import PolicyDDP, wrap_actor_critic
from envlab.distributed.gathering import gather_to_main, scatter_from_main
from envlab.distributed.statistics import WeightedMeans, pooled_moments


def large_value(rank: int) -> dict[str, Any]:
    """Return containers with tensors, some of which travel alone; one tensor has gaps in memory."""
    numbers = torch.arange(100_000, dtype=torch.float64) + rank
    return {
        "memory": {"numbers": numbers, "flags": numbers % 2 == 0},
        "columns": (numbers.float().view(1000, 100).T, "text"),
        "small": [torch.tensor([rank]), None],
        "empty": torch.zeros(0, 3),
    }


def moved_pieces(context: DistributedContext) -> tuple[int, int]:
    """Return how often progress was reported as large values were received and sent, in pieces."""
    gathering.MAX_BYTES = 2**18
    heard: list[None] = []
    everyone = gather_to_main(
        large_value(context.rank), 2, context.rank, moved=lambda: heard.append(None)
    )
    num_gathered = len(heard)
    scatter_from_main(everyone, 2, context.rank, moved=lambda: heard.append(None))
    return num_gathered, len(heard) - num_gathered


def collectives(context: DistributedContext) -> dict[str, Any]:
    rank = context.rank
    number = torch.tensor([1.0 + rank])
    return {
        "context": (rank, context.local_rank, context.world_size, context.backend),
        "threads": (context.num_threads, torch.get_num_threads()),
        "broadcast": context.broadcast({"from": rank}),
        "gather": context.gather(f"rank {rank}"),
        "gather_more_than_room": [
            context.gather(bytes([rank]) * size, room=room)
            for size in (0, 100, 10_000 * rank)
            for room in (1, 120, 4096)
        ],
        "gather_to_main": context.gather_to_main(10 * rank),
        "large": context.gather_to_main(large_value(rank)),
        "own": context.scatter_from_main([large_value(0), large_value(1)] if rank == 0 else None),
        "pieces": moved_pieces(context),
        "sum": context.sum(number).item(),
        "summand": number.item(),
    }


class Net(nn.Module):
    """A linear layer with a running statistic and an attribute."""

    nickname = "net"

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 1, bias=False)
        nn.init.constant_(self.linear.weight, 1.0 + rank)  # DDP must make them rank 0's
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.linear(values)


def data_parallel(context: DistributedContext) -> dict[str, Any]:
    rank = context.rank
    net = PolicyDDP(Net(rank))
    net.seen.fill_(5.0 + rank)
    reducer_calls = []
    net.register_comm_hook(
        None, lambda _, bucket: reducer_calls.append(1) or _all_reduce_mean(bucket.buffer())
    )
    with torch.no_grad():
        net(torch.ones(3, 2))
    calls_without_gradients = len(reducer_calls)
    # d(mean of w.x)/dw is the mean of x: (1, 2) on rank 0 and (3, 6) on rank 1, so (2, 4) together.
    net(torch.tensor([[1.0, 2.0]]) * (1 + 2 * rank)).mean().backward()
    actor, critic = wrap_actor_critic(Net(rank), Net(rank + 5))
    optimizer = torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        values = torch.tensor([[1.0, 0.0], [0.0, 1.0]]) * (1.0 + rank)
        (actor(values).mean() + 2.0 * critic(values).mean()).backward()
        optimizer.step()
    return {
        "keys": list(net.state_dict()),
        "nickname": (net.nickname, actor.nickname),
        "calls_without_gradients": calls_without_gradients,
        "gradient": net.linear.weight.grad.clone(),
        "buffer": net.seen.item(),
        "actor_keys": list(actor.state_dict()),
        "actor": actor.linear.weight.detach().clone(),
        "critic": critic.linear.weight.detach().clone(),
    }


def _all_reduce_mean(buffer: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
    work = torch.distributed.all_reduce(buffer.div_(2), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def statistics(context: DistributedContext) -> dict[str, Any]:
    rank = context.rank
    generator = torch.Generator().manual_seed(rank)
    # A large mean with a small spread, and different numbers of samples.
    samples = 1000.0 + 0.5 * torch.randn(300 + 400 * rank, generator=generator) + rank
    means = WeightedMeans()
    means.add("both", 3.0 if rank == 0 else 10.0, 1.0 if rank == 0 else 4.0)
    means.add("both", torch.tensor(1.0), torch.tensor(1.0))
    means.add("nothing", 0.0, 0.0)
    if rank == 1:
        means.add("only rank 1", 6.0, 3.0)
    return {
        "samples": samples,
        "moments": [float(value) for value in pooled_moments(samples, context)],
        "means": {name: tuple(mean) for name, mean in means.reduce(context.gather).items()},
        "again": means.reduce(context.gather),
    }


def main() -> None:
    context = DistributedContext.create(distributed=True, device="cpu")
    values = {
        "collectives": collectives(context),
        "data_parallel": data_parallel(context),
        "statistics": statistics(context),
    }
    torch.save(values, Path(sys.argv[1]) / f"rank{context.rank}.pt")
    context.close()
    context.close()


if __name__ == "__main__":
    main()
