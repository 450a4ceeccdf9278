"""Train an actuator network from a log, as a TorchScript file for ``ActuatorNetMLPCfg``.

    python scripts/actuators/train.py --log log.npz --output legs.pt
    python scripts/actuators/train.py --log log.npz --output legs.pt --kind lstm

All joints share the network, as Isaac Lab's do; select some with ``--joint_names``. The log is that
of ``record.py``. A tenth of the recordings is kept to judge the network, which is the number at the
end. Inputs and efforts are in rad, rad/s and N m; the file knows their scales.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from envlab.arguments import ArgumentParser, positive
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError

CHUNK = 50
"""Physics steps between gradients of an LSTM, whose memory persists."""


class MLP(nn.Module):
    """Efforts of errors and velocities now and some steps ago (Hwangbo et al. 2019)."""

    def __init__(self, ages: int, error: float, velocity: float, effort: float) -> None:
        super().__init__()
        self.scale = nn.Buffer(torch.tensor([error] * ages + [velocity] * ages))
        self.effort = effort
        self.layers = nn.Sequential(
            nn.Linear(2 * ages, 32),
            nn.Softsign(),
            nn.Linear(32, 32),
            nn.Softsign(),
            nn.Linear(32, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.effort * self.layers(x / self.scale)


class LSTM(nn.Module):
    """Efforts of the current error and velocity, and a memory (Rudin et al. 2022)."""

    def __init__(self, error: float, velocity: float, effort: float) -> None:
        super().__init__()
        self.scale = nn.Buffer(torch.tensor([error, velocity]))
        self.effort = effort
        self.lstm = nn.LSTM(2, 8, num_layers=2, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(
        self, x: torch.Tensor, memory: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        features, memory = self.lstm(x / self.scale, memory)
        return self.effort * self.head(features), memory


def read_log(path: str, joint_names: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return errors, velocities and efforts, ``(recordings, joints, steps)``.

    Raises:
        ConfigurationError: If the log is none, or has no such joint.
    """
    try:
        log = np.load(path, allow_pickle=False)
        targets, positions, velocities, efforts = (
            torch.as_tensor(log[name], dtype=torch.float32).transpose(1, 2)
            for name in ("targets", "positions", "velocities", "efforts")
        )
        names = log["joint_names"].tolist()
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise ConfigurationError(
            f"--log {path} cannot be read ({error}). Give an .npz file with targets, positions, "
            "velocities and efforts, (recordings, steps, joints) each, and joint_names."
        ) from error
    chosen = [i for i, name in enumerate(names) if re.fullmatch(joint_names, name)]
    if not chosen:
        raise ConfigurationError(
            f"--joint_names {joint_names!r} matches no joint of {path}, which has "
            f"{', '.join(names)}."
        )
    errors = targets - positions
    return errors[:, chosen], velocities[:, chosen], efforts[:, chosen]


def windows(errors: torch.Tensor, velocities: torch.Tensor, ages: Sequence[int]) -> torch.Tensor:
    """Return the inputs of an MLP, ``(recordings, joints, steps, 2 * len(ages))``.

    Before a recording's first step they are zero, as after a reset in a simulation.
    """
    past = [
        nn.functional.pad(values, (age, 0))[..., : values.shape[-1]]
        for values in (errors, velocities)
        for age in ages
    ]
    return torch.stack(past, dim=-1)


def fit_mlp(network: MLP, inputs: torch.Tensor, efforts: torch.Tensor, steps: int) -> None:
    """Train with ``inputs``, ``(rows, 2 * ages)``."""
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        rows = torch.randint(len(inputs), (4096,))
        loss = (network(inputs[rows])[:, 0] - efforts[rows]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()


def fit_lstm(network: LSTM, inputs: torch.Tensor, efforts: torch.Tensor, steps: int) -> None:
    """Train with ``inputs``, ``(rows, steps, 2)``, in chunks of a recording."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    places = range(0, inputs.shape[1], CHUNK)
    for step in range(steps):
        if step % len(places) == 0:  # from the beginning, with other recordings
            rows = torch.randint(len(inputs), (256,))
            memory = (torch.zeros(2, 256, 8), torch.zeros(2, 256, 8))
        here = slice(places[step % len(places)], places[step % len(places)] + CHUNK)
        found, (hidden, cell) = network(inputs[rows, here], memory)
        memory = (hidden.detach(), cell.detach())
        loss = (found[..., 0] - efforts[rows, here]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()


def main(arguments: Sequence[str]) -> int:
    """Train, judge and save a network."""
    parser = ArgumentParser(description="Train an actuator network from a log.")
    parser.add_argument("--log", default="log.npz")
    parser.add_argument("--output", required=True, help="TorchScript file")
    parser.add_argument("--kind", choices=("mlp", "lstm"), default="mlp")
    parser.add_argument("--joint_names", default=".*", help="regular expression")
    parser.add_argument("--input_idx", type=int, nargs="+", default=[0, 2, 4], help="ages, MLP")
    parser.add_argument("--num_steps", type=positive, default=4000, help="gradient steps")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    torch.manual_seed(args.seed)

    errors, velocities, efforts = read_log(args.log, args.joint_names)
    held = max(1, len(errors) // 10)
    scales = [float(values[held:].std()) for values in (errors, velocities, efforts)]
    network: MLP | LSTM
    if args.kind == "mlp":
        inputs = windows(errors, velocities, args.input_idx)
        network = MLP(len(args.input_idx), *scales)
        fit_mlp(network, inputs[held:].flatten(0, 2), efforts[held:].flatten(), args.num_steps)
    else:
        inputs = torch.stack((errors, velocities), dim=-1)
        network = LSTM(*scales)
        fit_lstm(network, inputs[held:].flatten(0, 1), efforts[held:].flatten(0, 1), args.num_steps)

    with torch.no_grad():
        if isinstance(network, MLP):
            found = network(inputs[:held])
        else:
            rows = inputs[:held].flatten(0, 1)
            memory = torch.zeros(2, len(rows), 8)
            found = network(rows, (memory, memory))[0].view(*efforts[:held].shape, 1)
    error = (found[..., 0] - efforts[:held]).square().mean().sqrt()
    torch.jit.script(network).save(args.output)
    print(f"{args.output}: error {error:.2f} N m of {efforts[:held].std():.2f} (RMS, held out)")
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
