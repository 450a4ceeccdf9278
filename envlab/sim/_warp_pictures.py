"""Pictures of all environments by ``mujoco_warp``'s renderer, which recorded graphs contain.

It differs from :mod:`envlab.sim.pictures`: surfaces nearer than ``clipping_range`` hide what is
behind them, although they are not seen; planes have highlights; textures do not fade with
distance; and on some sides of a box a texture is the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import mujoco
import mujoco_warp as mjw
import torch
import warp as wp

from envlab.sim.cfg import Frames, PictureCfg
from envlab.sim.recording import collection_suspended
from envlab.sim.simulation import Fields, copy_model


class WarpPictures:
    """Draws a camera's pictures into frames; see :class:`envlab.sim.pictures.CpuPictures`."""

    def __init__(
        self,
        cfg: PictureCfg,
        model: mujoco.MjModel,
        warp_model: mjw.Model,
        warp_data: mjw.Data,
        params: Fields,
        frames: Frames,
        *,
        wanted: torch.Tensor,
        slot: torch.Tensor,
        scope: Callable[[], AbstractContextManager[object]],
        records: bool,
    ) -> None:
        """Prepare to draw.

        Args:
            cfg: The camera.
            model: The model.
            warp_model: The same in Warp's arrays.
            warp_data: The data of all environments.
            params: Fields of the model that differ between environments.
            frames: The frames.
            wanted: Environments to draw, bool ``(num_envs,)``.
            slot: Index of the frame to draw on, int32 ``(num_envs,)``.
            scope: Makes Warp work on the simulation's device and stream.
            records: Whether to record the drawing as a graph.
        """
        self._frames, self._wanted, self._slot, self._scope = frames, wanted, slot, scope
        self._model, self._data = warp_model, warp_data
        self._near, self._far = cfg.clipping_range
        self._rows = torch.arange(len(wanted), device=wanted.device)
        self._shape = (len(wanted), cfg.height, cfg.width)
        shown = copy_model(model)
        shown.vis.map.znear = self._near / model.stat.extent
        shown.vis.map.zfar = self._far / model.stat.extent
        # Geoms are chosen by their groups, so the visible ones get a separate group.
        shown.geom_group[:] = 1
        shown.geom_group[list(cfg.geoms)] = 0
        skies = (model.tex_type == mujoco.mjtTexture.mjTEXTURE_SKYBOX).any()
        self._context = mjw.create_render_context(
            shown,
            nworld=len(wanted),
            cam_res=(cfg.width, cfg.height),
            render_rgb=frames.rgb is not None,
            render_depth=frames.depth is not None,
            render_seg=frames.segmentation is not None,
            enabled_geom_groups=[0],
            cam_active=[cfg.camera],
            background_color=(*cfg.background, 1.0),
            use_precomputed_rays=not {"cam_fovy", "cam_intrinsic"} & set(params),
            render_skybox=bool(skies),
        )
        self._any = torch.ones(1, dtype=torch.int32, device=wanted.device)
        self._graph: wp.Graph | None = None
        if records:
            self._render()  # compiles the kernels
            with collection_suspended(), wp.ScopedCapture() as capture:
                wp.capture_if(wp.from_torch(self._any), on_true=self._render)
            self._graph = capture.graph

    def draw(self) -> None:
        """Draw the wanted environments."""
        with self._scope():
            if self._graph is not None:
                self._any.copy_(self._wanted.any())
                wp.capture_launch(self._graph)
            else:
                self._render()
        frames, context, shape = self._frames, self._context, self._shape
        if frames.depth is not None:
            depth = wp.to_torch(context.depth_data).view(shape)
            seen = (depth >= self._near) & (depth < self._far)
            self._keep(frames.depth, depth.masked_fill(~seen, torch.inf))
        if frames.rgb is not None:
            packed = wp.to_torch(context.rgb_data).view(torch.uint8).view(*shape, 4)
            self._keep(frames.rgb, packed[..., [2, 1, 0]])
        if frames.segmentation is not None:
            self._keep(frames.segmentation, wp.to_torch(context.seg_data).view(*shape, 2)[..., 0])

    def _render(self) -> None:
        mjw.refit_bvh(self._model, self._data, self._context)
        mjw.render(self._model, self._data, self._context)

    def _keep(self, frames: torch.Tensor, drawn: torch.Tensor) -> None:
        """Write what was drawn into the wanted environments' slots."""
        slots = self._slot.long()
        wanted = self._wanted.view(-1, *[1] * (drawn.dim() - 1))
        frames[self._rows, slots] = torch.where(wanted, drawn, frames[self._rows, slots])
