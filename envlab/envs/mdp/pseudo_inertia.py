"""Mass, centre and inertia of bodies changed together, so that they stay physically consistent.

A body's second moments of mass about its frame are a 4 x 4 matrix J, the pseudo-inertia. Whatever
the upper triangular U, ``U J U^T`` is one, too (Rucker and Wensing, 2022).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.managers.event import requires_model_fields
from envlab.envs.masks import computed_where
from envlab.envs.math import matrix_from_quat
from envlab.envs.mdp.model_field import Distribution, Range, draw, rows_of_field, write
from envlab.envs.random import RandomStream
from envlab.sim.host import on_host

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

_ROBOT: Any = SceneEntityCfg("robot")
_NONE: Range = (0.0, 0.0)
_SWEEPS = 6
"""Of three Jacobi rotations; float64 needs no more, whatever the matrix."""
_NEGLIGIBLE = 1e-17
"""Fraction of the trace below which float64 cannot distinguish off-diagonal elements from 0."""


@requires_model_fields("body_mass", "body_ipos", "body_inertia", "body_iquat")
def pseudo_inertia(
    env: VectorEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    alpha_range: Range = _NONE,
    d_range: Range | None = None,
    d1_range: Range = _NONE,
    d2_range: Range = _NONE,
    d3_range: Range = _NONE,
    s12_range: Range = _NONE,
    s13_range: Range = _NONE,
    s23_range: Range = _NONE,
    t_range: Range | None = None,
    t1_range: Range = _NONE,
    t2_range: Range = _NONE,
    t3_range: Range = _NONE,
    distribution: Distribution = "uniform",
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Change masses, centres of mass and inertias of bodies consistently, as mjlab's.

    Bodies without mass stay as they are.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        alpha_range: Of the density: mass and inertia are multiplied by ``exp(2 alpha)``.
        d_range: Of all three ``d``; null: each its own.
        d1_range: Of the body's length along x, by ``exp(d1)``.
        d2_range: Along y.
        d3_range: Along z.
        s12_range: Of the shear of x along y.
        s13_range: Of x along z.
        s23_range: Of y along z.
        t_range: Of all three ``t``; null: each its own.
        t1_range: Of the shift of the centre of mass along x, in m.
        t2_range: Along y.
        t3_range: Along z.
        distribution: How to draw; see :func:`randomize_model_field`.
        asset_cfg: The bodies.
    """
    stretches = [d_range] * 3 if d_range is not None else [d1_range, d2_range, d3_range]
    shifts = [t_range] * 3 if t_range is not None else [t1_range, t2_range, t3_range]
    ranges = [alpha_range, *stretches, s12_range, s13_range, s23_range, *shifts]
    rows = rows_of_field(env, "body_mass", asset_cfg)
    drawn = draw(env, stream, distribution, ranges * len(rows), mask).double()
    nominal = {
        name: env.nominal_rows(f"body_{name}")[:, rows].double()
        for name in ("mass", "ipos", "inertia", "iquat")
    }

    def compute(envs: torch.Tensor | slice) -> torch.Tensor:
        own = {
            name: values if len(values) == 1 else values[envs] for name, values in nominal.items()
        }
        changed = transformed(**own, drawn=drawn[envs].unflatten(1, (len(rows), 10)))
        has_mass = (own["mass"] > 0.0).unsqueeze(-1)
        return torch.where(has_mass, _joined(changed), _joined(own)).float()

    table = computed_where(mask, compute)  # a matrix takes a microsecond
    if table.dim() == 0:
        return
    for name, values in zip(nominal, table.split([1, 3, 3, 4], dim=2), strict=True):
        columns = torch.arange(values.shape[2], device=env.device)
        write(env, mask, f"body_{name}", rows, columns, values, "abs")
    env.sim.apply_params(mask)


def _joined(fields: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return mass, centre, inertia and axes side by side, ``(..., 11)``."""
    mass, *others = fields.values()
    return torch.cat((mass.unsqueeze(-1), *others), dim=-1)


def transformed(
    mass: torch.Tensor,
    ipos: torch.Tensor,
    inertia: torch.Tensor,
    iquat: torch.Tensor,
    drawn: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Return MuJoCo's fields of bodies after ``U J U^T``.

    Args:
        mass: ``(k,)``.
        ipos: Centres of mass, ``(k, 3)``.
        inertia: Principal moments, ``(k, 3)``.
        iquat: Principal axes, (w, x, y, z), ``(k, 4)``.
        drawn: alpha, d1, d2, d3, s12, s13, s23, t1, t2, t3, ``(num_envs, k, 10)``.
    """
    axes = matrix_from_quat(iquat)
    # Principal second moments of mass: inertia is the sum of the other two.
    moments = 0.5 * inertia.sum(dim=-1, keepdim=True) - inertia
    outer = ipos.unsqueeze(-1) * ipos.unsqueeze(-2)
    about_frame = (axes * moments.unsqueeze(-2)) @ axes.mT + mass[..., None, None] * outer
    first = mass.unsqueeze(-1) * ipos
    pseudo = torch.cat(
        (
            torch.cat((about_frame, first.unsqueeze(-1)), dim=-1),
            torch.cat((first, mass.unsqueeze(-1)), dim=-1).unsqueeze(-2),
        ),
        dim=-2,
    )
    upper = _upper(drawn)
    pseudo = upper @ pseudo @ upper.mT
    mass = pseudo[..., 3, 3]
    ipos = pseudo[..., :3, 3] / mass.clamp(min=1e-12).unsqueeze(-1)
    outer = ipos.unsqueeze(-1) * ipos.unsqueeze(-2)
    centred = pseudo[..., :3, :3] - mass[..., None, None] * outer
    # In the old principal axes, in which the new ones are near.
    moments, turn = principal_axes(axes.mT @ centred @ axes)
    inertia = moments.sum(dim=-1, keepdim=True) - moments
    iquat = _product(iquat, turn)
    return {"mass": mass, "ipos": ipos, "inertia": inertia, "iquat": iquat}


def _upper(drawn: torch.Tensor) -> torch.Tensor:
    """Return U, ``(..., 4, 4)``."""
    alpha, d1, d2, d3, s12, s13, s23, t1, t2, t3 = drawn.unbind(-1)
    zero, one = torch.zeros_like(alpha), torch.ones_like(alpha)
    rows = [
        *(d1.exp(), s12, s13, t1),
        *(zero, d2.exp(), s23, t2),
        *(zero, zero, d3.exp(), t3),
        *(zero, zero, zero, one),
    ]
    return alpha.exp()[..., None, None] * torch.stack(rows, dim=-1).unflatten(-1, (4, 4))


def principal_axes(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return eigenvalues of symmetric matrices, and the rotation of their axes from the identity.

    By Jacobi's rotations, as a GPU's solver cannot be recorded as a graph; none is by more than an
    eighth of a turn, so axes change places only if they must.

    Args:
        matrix: ``(..., 3, 3)``.

    Returns:
        Eigenvalues, ``(..., 3)``, and a quaternion (w, x, y, z), ``(..., 4)``.
    """
    a = {(i, j): matrix[..., i, j] for i in range(3) for j in range(i, 3)}
    zero = torch.zeros_like(a[0, 0])
    quat = torch.stack((zero + 1.0, zero, zero, zero), dim=-1)
    for number, (p, q, r) in enumerate([(0, 1, 2), (1, 2, 0), (2, 0, 1)] * _SWEEPS):
        if number % 3 == 0 and on_host(zero.device):  # where all are done, the rest is 0
            largest = torch.stack((a[0, 1], a[0, 2], a[1, 2])).abs().amax(0)
            if bool((largest <= _NEGLIGIBLE * (a[0, 0] + a[1, 1] + a[2, 2]).abs()).all()):
                break
        pq, pr, qr = (min(p, q), max(p, q)), (min(p, r), max(p, r)), (min(q, r), max(q, r))
        apart, off = a[p, p] - a[q, q], a[pq]
        angle = 0.5 * torch.atan2(torch.where(apart < 0.0, -2.0, 2.0) * off, apart.abs())
        c, s = angle.cos(), angle.sin()
        a[p, p], a[q, q] = (
            c * c * a[p, p] + 2.0 * c * s * off + s * s * a[q, q],
            s * s * a[p, p] - 2.0 * c * s * off + c * c * a[q, q],
        )
        a[pr], a[qr] = c * a[pr] + s * a[qr], c * a[qr] - s * a[pr]
        a[pq] = zero
        turn = [(0.5 * angle).cos(), zero, zero, zero]
        turn[1 + r] = (0.5 * angle).sin()
        quat = _product(quat, torch.stack(turn, dim=-1))
    return torch.stack((a[0, 0], a[1, 1], a[2, 2]), dim=-1), quat


def _product(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the product of quaternions in float64, of any shapes that fit together."""
    w, v = first[..., :1], first[..., 1:]
    x, u = second[..., :1], second[..., 1:]
    v, u = torch.broadcast_tensors(v, u)
    real = w * x - (v * u).sum(dim=-1, keepdim=True)
    return torch.cat((real, w * u + x * v + torch.linalg.cross(v, u)), dim=-1)
