"""Random changes of colour pictures: blur, brightness, contrast, saturation, hue and noise.

One source for CPU and CUDA. The ranges are those of torchvision's ``ColorJitter`` (0.20). Its
operations follow one another in random order and each rounds; here brightness, contrast, saturation
and hue are one linear map, in this order, and the hue turns about the grey axis of the colour cube,
not in HSV. The blur, which comes first, has its Gaussian at whole pixels, over three standard
deviations, and the pixels of the edge beyond it.
"""

from __future__ import annotations

import dataclasses

import torch
import warp as wp

from envlab.sim.cfg import AugmentationCfg
from envlab.state import State

wp.config.log_level = wp.LOG_WARNING  # Else it prints a line per kernel module.
wp.set_module_options({"enable_backward": False})

GREY = wp.constant(wp.vec3(0.299, 0.587, 0.114))
"""Weights of a colour's brightness, of ITU-R BT.601, as in torchvision."""
MEAN_OF_BYTES, STD_OF_BYTES = wp.constant(510.0), wp.constant(147.8)
"""Of the sum of four random bytes, which is nearly normal and ten times as fast as
``wp.randn``."""
vec5 = wp.types.vector(length=5, dtype=float)


@wp.struct
class Changes:
    """Limits of the changes: :class:`envlab.sim.cfg.AugmentationCfg` in numbers."""

    brightness: float
    contrast: float
    saturation: float
    hue: float
    noise: float
    blur: float
    num_views: int


class Augmentation:
    """Changes pictures in place.

    Attributes:
        bits: The random bits of each environment's latest picture, int64 ``(num_envs,)``.
    """

    STATE = State(per_env=("bits",))

    def __init__(
        self, cfg: AugmentationCfg, num_envs: int, device: torch.device, *, num_views: int = 1
    ) -> None:
        """Change pictures of ``num_envs`` environments.

        Args:
            cfg: The changes.
            num_envs: Number of environments.
            device: Where the pictures are.
            num_views: Number of views in a picture, whose pixels take turns in each row.
        """
        wp.init()
        self._changes = Changes()
        for field in dataclasses.fields(AugmentationCfg):
            setattr(self._changes, field.name, getattr(cfg, field.name))
        self._changes.num_views = num_views
        self._blurs = cfg.blur > 0.0
        self._device = wp.device_from_torch(device)
        self._light = wp.zeros(num_envs, dtype=float, device=self._device)
        self._blurred: wp.array | None = None
        self.bits = torch.zeros(num_envs, dtype=torch.int64, device=device)

    def draw(self, bits: torch.Tensor, mask: torch.Tensor) -> None:
        """Take other random bits, int64 ``(num_envs,)``, for the environments of ``mask``."""
        self.bits.copy_(torch.where(mask, bits, self.bits))

    def apply(self, rgb: torch.Tensor, mask: torch.Tensor, slot: torch.Tensor) -> None:
        """Change the pictures of some environments.

        Args:
            rgb: Uint8 ``(num_envs, num_slots, height, width, 3)``.
            mask: Which environments, bool ``(num_envs,)``.
            slot: Index of the picture to change, int32 ``(num_envs,)``.
        """
        num_envs, _, height, width, _ = rgb.shape
        pixels = wp.from_torch(rgb, dtype=wp.vec3ub)
        chosen = [pixels, wp.from_torch(slot), wp.from_torch(mask)]
        drawn = [wp.from_torch(self.bits), self._changes]
        rows = (num_envs, height)
        where = {"device": self._device}
        if rgb.is_cuda:
            where = {"stream": wp.stream_from_torch(rgb.device)}
        if self._blurs:
            if self._blurred is None:
                shape = (num_envs, height, width)
                self._blurred = wp.zeros(shape, dtype=wp.vec3, device=self._device)
            inputs = [*chosen, self._blurred, *drawn]
            for kernel in (blur_rows, blur_columns):
                wp.launch(kernel, dim=rows, inputs=inputs, **where)
        wp.launch(measure_light, dim=num_envs, inputs=[*chosen, self._light], **where)
        inputs = [*chosen, self._light, *drawn]
        wp.launch(change_colours, dim=rows, inputs=inputs, **where)


@wp.func
def in_floats(pixel: wp.vec3ub) -> wp.vec3:
    """Return a colour as floats."""
    return wp.vec3(float(pixel[0]), float(pixel[1]), float(pixel[2]))


@wp.func
def in_bytes(colour: wp.vec3) -> wp.vec3ub:
    """Return a colour from 0 to 255, rounded."""
    return wp.vec3ub(
        wp.uint8(wp.clamp(colour[0] + 0.5, 0.0, 255.0)),
        wp.uint8(wp.clamp(colour[1] + 0.5, 0.0, 255.0)),
        wp.uint8(wp.clamp(colour[2] + 0.5, 0.0, 255.0)),
    )


@wp.func
def nearly_normal(bits: wp.uint32) -> float:
    """Return a number of mean 0 and standard deviation 1."""
    total = (bits & wp.uint32(255)) + ((bits >> wp.uint32(8)) & wp.uint32(255))
    total += ((bits >> wp.uint32(16)) & wp.uint32(255)) + (bits >> wp.uint32(24))
    return (float(total) - MEAN_OF_BYTES) / STD_OF_BYTES


@wp.func
def seed_of(bits: wp.int64) -> int:
    """Return the seed of a picture's draws."""
    return int(bits & wp.int64(0x7FFFFFFF))


@wp.func
def drawn_of(bits: wp.int64) -> vec5:
    """Return a picture's draws from -1 to 1: of each change of colours, and of its blur."""
    draws = wp.rand_init(seed_of(bits))
    drawn = vec5()
    for k in range(5):
        drawn[k] = wp.randf(draws, -1.0, 1.0)
    return drawn


@wp.func
def deviation_of(bits: wp.int64, blur: float) -> float:
    """Return the standard deviation of a picture's blur, in pixels."""
    return wp.max(blur * wp.abs(drawn_of(bits)[4]), 1e-2)


@wp.kernel
def blur_rows(
    pixels: wp.array4d(dtype=wp.vec3ub),
    slot: wp.array(dtype=int),
    wanted: wp.array(dtype=wp.bool),
    blurred: wp.array3d(dtype=wp.vec3),
    bits: wp.array(dtype=wp.int64),
    changes: Changes,
):
    """Write a row of an environment's picture, blurred along it."""
    n, i = wp.tid()
    if not wanted[n]:
        return
    deviation = deviation_of(bits[n], changes.blur)
    ratio = wp.exp(-0.5 / (deviation * deviation))
    views = changes.num_views
    for j in range(pixels.shape[3]):
        total = in_floats(pixels[n, slot[n], i, j])
        sum_of_weights = float(1.0)
        weight = float(1.0)
        factor = ratio
        for k in range(1, int(3.0 * deviation) + 2):
            weight *= factor  # so that it is ratio^(k^2)
            factor *= ratio * ratio
            left = wp.max(j - k * views, j % views)
            right = wp.min(j + k * views, pixels.shape[3] - views + j % views)
            near = in_floats(pixels[n, slot[n], i, left])
            far = in_floats(pixels[n, slot[n], i, right])
            total += weight * (near + far)
            sum_of_weights += 2.0 * weight
        blurred[n, i, j] = total / sum_of_weights


@wp.kernel
def blur_columns(
    pixels: wp.array4d(dtype=wp.vec3ub),
    slot: wp.array(dtype=int),
    wanted: wp.array(dtype=wp.bool),
    blurred: wp.array3d(dtype=wp.vec3),
    bits: wp.array(dtype=wp.int64),
    changes: Changes,
):
    """Write a row of an environment's picture from rows that are blurred along themselves."""
    n, i = wp.tid()
    if not wanted[n]:
        return
    deviation = deviation_of(bits[n], changes.blur)
    ratio = wp.exp(-0.5 / (deviation * deviation))
    last = pixels.shape[2] - 1
    for j in range(pixels.shape[3]):
        total = blurred[n, i, j]
        sum_of_weights = float(1.0)
        weight = float(1.0)
        factor = ratio
        for k in range(1, int(3.0 * deviation) + 2):
            weight *= factor
            factor *= ratio * ratio
            total += weight * (blurred[n, wp.max(i - k, 0), j] + blurred[n, wp.min(i + k, last), j])
            sum_of_weights += 2.0 * weight
        pixels[n, slot[n], i, j] = in_bytes(total / sum_of_weights)


@wp.kernel
def measure_light(
    pixels: wp.array4d(dtype=wp.vec3ub),
    slot: wp.array(dtype=int),
    wanted: wp.array(dtype=wp.bool),
    light: wp.array(dtype=float),
):
    """Write the mean brightness of each environment's picture, ``(num_envs,)``."""
    n = wp.tid()
    if not wanted[n]:
        return
    total = float(0.0)
    for i in range(pixels.shape[2]):
        row = float(0.0)  # so that no sum grows large
        for j in range(pixels.shape[3]):
            row += wp.dot(in_floats(pixels[n, slot[n], i, j]), GREY)
        total += row / float(pixels.shape[3])
    light[n] = total / float(pixels.shape[2])


@wp.kernel
def change_colours(
    pixels: wp.array4d(dtype=wp.vec3ub),
    slot: wp.array(dtype=int),
    wanted: wp.array(dtype=wp.bool),
    light: wp.array(dtype=float),
    bits: wp.array(dtype=wp.int64),
    changes: Changes,
):
    """Change a row of an environment's picture; all of its rows in the same way."""
    n, i = wp.tid()
    if not wanted[n]:
        return
    drawn = drawn_of(bits[n])
    brightness = 1.0 + changes.brightness * drawn[0]
    contrast = 1.0 + changes.contrast * drawn[1]
    saturation = 1.0 + changes.saturation * drawn[2]
    angle = 2.0 * wp.pi * changes.hue * drawn[3]
    mean = (1.0 - contrast) * brightness * light[n]
    scale = contrast * brightness
    cos = wp.cos(angle)
    along = (1.0 - cos) / 3.0
    aside = wp.sin(angle) / wp.sqrt(3.0)
    std = 255.0 * changes.noise
    for j in range(pixels.shape[3]):
        colour = scale * in_floats(pixels[n, slot[n], i, j]) + wp.vec3(mean, mean, mean)
        grey = (1.0 - saturation) * wp.dot(colour, GREY)
        colour = saturation * colour + wp.vec3(grey, grey, grey)
        # Rodrigues' rotation about (1, 1, 1).
        total = along * (colour[0] + colour[1] + colour[2])
        colour = wp.vec3(
            cos * colour[0] + total + aside * (colour[2] - colour[1]),
            cos * colour[1] + total + aside * (colour[0] - colour[2]),
            cos * colour[2] + total + aside * (colour[1] - colour[0]),
        )
        if std > 0.0:
            noise = wp.rand_init(seed_of(bits[n]), 1 + i * pixels.shape[3] + j)
            for c in range(3):
                colour[c] += std * nearly_normal(wp.randu(noise))
        pixels[n, slot[n], i, j] = in_bytes(colour)
