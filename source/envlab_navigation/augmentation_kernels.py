"""Warp kernels that change colour pictures at random: one source for CPU and CUDA.

The ranges are those of torchvision's ``ColorJitter`` (0.20). Its operations follow one another in
random order and each rounds; here brightness, contrast, saturation and hue are one linear map, in
this order, and the hue turns about the grey axis of the colour cube, not in HSV.
"""

from __future__ import annotations

import warp as wp

wp.config.log_level = wp.LOG_WARNING  # Else it prints a line per kernel module.
wp.set_module_options({"enable_backward": False})

GREY = wp.constant(wp.vec3(0.299, 0.587, 0.114))
"""Weights of a colour's brightness, of ITU-R BT.601, as in torchvision."""
MEAN_OF_BYTES, STD_OF_BYTES = wp.constant(510.0), wp.constant(147.8)
"""Of the sum of four random bytes, which is nearly normal and ten times as fast as
``wp.randn``."""


@wp.struct
class Changes:
    """Limits of the changes: :class:`envlab_navigation.nav_cfg.AugmentationCfg` in numbers."""

    brightness: float
    contrast: float
    saturation: float
    hue: float
    noise: float


@wp.func
def in_floats(pixel: wp.vec3ub) -> wp.vec3:
    """Return a colour as floats."""
    return wp.vec3(float(pixel[0]), float(pixel[1]), float(pixel[2]))


@wp.func
def noisy(value: float, bits: wp.uint32, std: float) -> wp.uint8:
    """Return a colour channel with noise, from 0 to 255."""
    if std > 0.0:
        total = (bits & wp.uint32(255)) + ((bits >> wp.uint32(8)) & wp.uint32(255))
        total += ((bits >> wp.uint32(16)) & wp.uint32(255)) + (bits >> wp.uint32(24))
        value = value + std * (float(total) - MEAN_OF_BYTES) / STD_OF_BYTES
    return wp.uint8(wp.clamp(value + 0.5, 0.0, 255.0))


@wp.kernel
def measure_light(
    pixels: wp.array3d(dtype=wp.vec3ub),
    wanted: wp.array(dtype=wp.bool),
    light: wp.array(dtype=float),
):
    """Write the mean brightness of each environment's picture, ``(num_envs,)``."""
    n = wp.tid()
    if not wanted[n]:
        return
    total = float(0.0)
    for i in range(pixels.shape[1]):
        row = float(0.0)  # so that no sum grows large
        for j in range(pixels.shape[2]):
            row += wp.dot(in_floats(pixels[n, i, j]), GREY)
        total += row / float(pixels.shape[2])
    light[n] = total / float(pixels.shape[1])


@wp.kernel
def change_colours(
    pixels: wp.array3d(dtype=wp.vec3ub),
    wanted: wp.array(dtype=wp.bool),
    light: wp.array(dtype=float),
    bits: wp.array(dtype=wp.int64),
    changes: Changes,
):
    """Change a row of an environment's picture; all of its rows in the same way."""
    n, i = wp.tid()
    if not wanted[n]:
        return
    seed = int(bits[n] & wp.int64(0x7FFFFFFF))
    draws = wp.rand_init(seed)
    brightness = 1.0 + changes.brightness * wp.randf(draws, -1.0, 1.0)
    contrast = 1.0 + changes.contrast * wp.randf(draws, -1.0, 1.0)
    saturation = 1.0 + changes.saturation * wp.randf(draws, -1.0, 1.0)
    angle = 2.0 * wp.pi * changes.hue * wp.randf(draws, -1.0, 1.0)
    mean = (1.0 - contrast) * brightness * light[n]
    scale = contrast * brightness
    cos = wp.cos(angle)
    along = (1.0 - cos) / 3.0
    aside = wp.sin(angle) / wp.sqrt(3.0)
    for j in range(pixels.shape[2]):
        colour = scale * in_floats(pixels[n, i, j]) + wp.vec3(mean, mean, mean)
        grey = (1.0 - saturation) * wp.dot(colour, GREY)
        colour = saturation * colour + wp.vec3(grey, grey, grey)
        # Rodrigues' rotation about (1, 1, 1).
        total = along * (colour[0] + colour[1] + colour[2])
        red = cos * colour[0] + total + aside * (colour[2] - colour[1])
        green = cos * colour[1] + total + aside * (colour[0] - colour[2])
        blue = cos * colour[2] + total + aside * (colour[1] - colour[0])
        noise = wp.rand_init(seed, 1 + i * pixels.shape[2] + j)
        std = 255.0 * changes.noise
        pixels[n, i, j] = wp.vec3ub(
            noisy(red, wp.randu(noise), std),
            noisy(green, wp.randu(noise), std),
            noisy(blue, wp.randu(noise), std),
        )
