"""Warp functions that colour the pixels of a picture, on a CPU, as MuJoCo's own renderer does.

Colours and textures of geoms and materials, the headlight and the lights of the file by Blinn and
Phong's model, and the sky. Light goes from a lamp over one surface to the camera: there are no
shadows, no reflections, no haze and no transparency (but for what is fully transparent).
"""

from __future__ import annotations

import warp as wp

from envlab.sim._picture_shapes import (
    BOX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    HFIELD,
    MESH,
    PLANE,
    SPHERE,
    Eye,
    Ground,
    Poses,
    Shapes,
    View,
    shape_normal,
)

wp.set_module_options({"enable_backward": False})

SPOT, DIRECTIONAL = wp.constant(0), wp.constant(1)
"""MuJoCo's ``mjtLightType``; others shine in all directions."""
CUBE, SKYBOX = wp.constant(1), wp.constant(2)
"""MuJoCo's ``mjtTexture``; 0 is flat."""


@wp.struct
class Textures:
    """All textures of a model."""

    texels: wp.array(dtype=wp.vec3)
    """Colours from 0 to 1, row by row, of one texture after the other."""
    start: wp.array(dtype=int)
    width: wp.array(dtype=int)
    height: wp.array(dtype=int)
    kind: wp.array(dtype=int)
    mean: wp.array(dtype=wp.vec3)
    """Mean colours, which are seen from so far that a pixel holds a whole texture."""


@wp.struct
class Looks:
    """The appearance of geoms; indexed by geom unless stated otherwise."""

    colour: wp.array2d(dtype=wp.vec3)
    """``(num_envs or 1, ngeom)``."""
    gloss: wp.array(dtype=wp.vec3)
    """Specular reflection, its exponent, and emission."""
    texture: wp.array(dtype=int)
    """-1: none."""
    repeat: wp.array(dtype=wp.vec2)
    """Repetitions of the texture: in a unit of length, or over the geom."""
    is_uniform: wp.array(dtype=wp.bool)
    """Whether in a unit of length."""
    sky: int
    """The sky's texture; -1: none."""
    background: wp.vec3


@wp.struct
class Lights:
    """The lamps of the file, ``(num_envs or 1, nlight)``, and the headlight."""

    kind: wp.array(dtype=int)
    is_on: wp.array2d(dtype=wp.bool)
    attenuation: wp.array2d(dtype=wp.vec3)
    spot: wp.array2d(dtype=wp.vec2)
    """Cosine of the cutoff, and the exponent."""
    ambient: wp.array2d(dtype=wp.vec3)
    diffuse: wp.array2d(dtype=wp.vec3)
    specular: wp.array2d(dtype=wp.vec3)
    head_ambient: wp.vec3
    head_diffuse: wp.vec3
    head_specular: wp.vec3


@wp.func
def sample(textures: Textures, k: int, u: float, v: float, top: int, height: int) -> wp.vec3:
    """Return the colour at ``u`` and ``v`` of ``height`` rows from ``top`` on, which repeat."""
    width = textures.width[k]
    x = (u - wp.floor(u)) * float(width) - 0.5
    y = (v - wp.floor(v)) * float(height) - 0.5
    left = int(wp.floor(x))
    above = int(wp.floor(y))
    along = x - float(left)
    down = y - float(above)
    right = wp.where(left + 1 < width, left + 1, 0)
    below = wp.where(above + 1 < height, above + 1, 0)
    left = wp.where(left < 0, width - 1, left)
    above = wp.where(above < 0, height - 1, above)
    first = textures.start[k] + (top + above) * width
    last = textures.start[k] + (top + below) * width
    texels = textures.texels
    return (1.0 - down) * (
        (1.0 - along) * texels[first + left] + along * texels[first + right]
    ) + down * ((1.0 - along) * texels[last + left] + along * texels[last + right])


@wp.func
def sample_cube(textures: Textures, k: int, d: wp.vec3) -> wp.vec3:
    """Return the colour in a direction; OpenGL's faces lie below each other."""
    x = wp.abs(d[0])
    y = wp.abs(d[1])
    z = wp.abs(d[2])
    face = int(0)
    s = float(0.0)
    t = -d[1]
    longest = x
    if x >= y and x >= z:
        face = wp.where(d[0] > 0.0, 0, 1)
        s = wp.where(d[0] > 0.0, -d[2], d[2])
    elif y >= z:
        longest = y
        face = wp.where(d[1] > 0.0, 2, 3)
        s = d[0]
        t = wp.where(d[1] > 0.0, d[2], -d[2])
    else:
        longest = z
        face = wp.where(d[2] > 0.0, 4, 5)
        s = wp.where(d[2] > 0.0, d[0], -d[0])
    size = textures.width[k]
    edge = 0.5 / float(size)  # colours of other faces do not mix in
    u = wp.clamp(0.5 * (s / longest + 1.0), edge, 1.0 - edge)
    v = wp.clamp(0.5 * (t / longest + 1.0), edge, 1.0 - edge)
    return sample(textures, k, u, v, face * size, size)


@wp.func
def sky_colour(textures: Textures, k: int, d: wp.vec3) -> wp.vec3:
    """Return the sky's colour in a direction of the world."""
    return sample_cube(textures, k, wp.vec3(d[0], d[2], -d[1]))


@wp.func
def unit(at: float, half: float) -> float:
    """Return a coordinate in units of a side, from 0; of an infinite one, half of it."""
    return wp.where(half > 0.0, (at + half) / (2.0 * half), 0.5 * at)


@wp.func
def round_coordinates(kind: int, size: wp.vec3, p: wp.vec3, normal: wp.vec3) -> wp.vec2:
    """Return where a texture is seen on a round shape: around it, and from its top down."""
    quarter = 0.5 * wp.pi
    if kind == CYLINDER or kind == CAPSULE:
        around = wp.atan2(p[1], p[0]) / (4.0 * quarter)
        around -= wp.floor(around)
        if kind == CYLINDER and wp.abs(normal[2]) > 0.7:
            return wp.vec2(0.5 + 0.5 * p[0] / size[0], 0.5 + 0.5 * p[1] / size[0])
        beyond = (wp.abs(p[2]) - size[1]) / size[0]
        if kind == CYLINDER or beyond <= 0.0:
            return wp.vec2(around, 0.5 - 0.5 * p[2] / size[1])
        risen = wp.asin(wp.min(beyond, 1.0)) / quarter
        return wp.vec2(around, wp.where(p[2] > 0.0, 1.0 - risen, risen))
    radii = size
    if kind == SPHERE:
        radii = wp.vec3(size[0], size[0], size[0])
    d = wp.normalize(wp.cw_div(p, radii))
    around = wp.atan2(d[1], d[0]) / (4.0 * quarter)
    around -= wp.floor(around)
    return wp.vec2(around, 0.5 - 0.5 * wp.asin(wp.clamp(d[2], -1.0, 1.0)) / quarter)


@wp.func
def texture_colour(
    textures: Textures,
    looks: Looks,
    geom: int,
    kind: int,
    size: wp.vec3,
    p: wp.vec3,
    normal: wp.vec3,
    footprint: float,
) -> wp.vec3:
    """Return a texture's colour at a point in a geom's frame.

    Args:
        textures: All textures.
        looks: The geoms' looks.
        geom: The geom.
        kind: Its type.
        size: Its sizes.
        p: The point.
        normal: The surface's normal at ``p``.
        footprint: Size of a pixel on the surface, in m.
    """
    k = looks.texture[geom]
    repeat = looks.repeat[geom]
    if textures.kind[k] != 0:
        return sample_cube(textures, k, p)
    if kind != PLANE and kind != HFIELD and kind != BOX:
        if kind == MESH:  # texture coordinates of meshes are not read
            return textures.mean[k]
        if looks.is_uniform[geom]:
            repeat = wp.vec2(
                repeat[0] * size[0], repeat[1] * wp.where(kind == ELLIPSOID, size[1], size[0])
            )
        at = round_coordinates(kind, size, p, normal)
        return sample(textures, k, at[0] * repeat[0], at[1] * repeat[1], 0, textures.height[k])
    x = p[0]
    y = p[1]
    half = wp.vec2(size[0], size[1])
    if kind == BOX and wp.abs(normal[2]) < 0.5:
        y = p[2]
        if wp.abs(normal[0]) > 0.5:
            x = p[1]
            half = wp.vec2(size[1], size[2])
        else:
            half = wp.vec2(size[0], size[2])
    u = unit(x, half[0])
    v = unit(-y, half[1])
    per_m = wp.vec2(
        wp.where(half[0] > 0.0, 0.5 / half[0], 0.5), wp.where(half[1] > 0.0, 0.5 / half[1], 0.5)
    )
    if looks.is_uniform[geom]:
        repeat = wp.vec2(
            repeat[0] * wp.where(half[0] > 0.0, size[0], 1.0),
            repeat[1] * wp.where(half[1] > 0.0, size[1], 1.0),
        )
    offset = wp.where(half[0] > 0.0 and half[1] > 0.0, 0.0, -0.5)
    covered = footprint * wp.max(repeat[0] * per_m[0], repeat[1] * per_m[1])
    colour = sample(
        textures, k, u * repeat[0] + offset, v * repeat[1] + offset, 0, textures.height[k]
    )
    # What holds a whole texture shows its mean.
    return wp.lerp(colour, textures.mean[k], wp.clamp(covered, 0.0, 1.0))


@wp.func
def reflected(
    base: wp.vec3,
    gloss: wp.vec3,
    normal: wp.vec3,
    to_eye: wp.vec3,
    to_light: wp.vec3,
    diffuse: wp.vec3,
    specular: wp.vec3,
) -> wp.vec3:
    """Return what a surface sends to the eye from one light."""
    facing = wp.dot(normal, to_light)
    if facing <= 0.0:
        return wp.vec3(0.0, 0.0, 0.0)
    colour = wp.cw_mul(base, diffuse) * facing
    if gloss[0] > 0.0 and specular[0] + specular[1] + specular[2] > 0.0:
        half = wp.dot(normal, wp.normalize(to_light + to_eye))
        if half > 1.0 - 6.0 / wp.max(gloss[1], 6.0):  # less is below 1 / 255
            colour += specular * (gloss[0] * wp.pow(half, gloss[1]))
    return colour


@wp.func
def surface_colour(
    lights: Lights,
    poses: Poses,
    n: int,
    base: wp.vec3,
    gloss: wp.vec3,
    point: wp.vec3,
    normal: wp.vec3,
    to_eye: wp.vec3,
    backwards: wp.vec3,
) -> wp.vec3:
    """Return the colour of a point of a surface in the world.

    Args:
        lights: All lights.
        poses: Their poses.
        n: The environment.
        base: The surface's own colour.
        gloss: See :class:`Looks`.
        point: The point.
        normal: The surface's normal at ``point``.
        to_eye: Direction to the camera.
        backwards: The opposite of the camera's own direction.
    """
    colour = base * gloss[2] + wp.cw_mul(base, lights.head_ambient)
    colour += reflected(
        base, gloss, normal, to_eye, backwards, lights.head_diffuse, lights.head_specular
    )
    row = n % lights.is_on.shape[0]
    for k in range(lights.is_on.shape[1]):
        if not lights.is_on[row, k]:
            continue
        colour += wp.cw_mul(base, lights.ambient[n % lights.ambient.shape[0], k])
        direction = poses.light_xdir[n, k]
        to_light = -direction
        strength = float(1.0)
        if lights.kind[k] != DIRECTIONAL:
            away = poses.light_xpos[n, k] - point
            distance = wp.length(away)
            to_light = away / wp.max(distance, 1.0e-6)
            faded = lights.attenuation[n % lights.attenuation.shape[0], k]
            strength = 1.0 / wp.max(faded[0] + distance * (faded[1] + distance * faded[2]), 1.0e-6)
            if lights.kind[k] == SPOT:
                spot = lights.spot[n % lights.spot.shape[0], k]
                straight = -wp.dot(to_light, direction)
                if straight < spot[0]:
                    continue
                strength *= wp.pow(wp.max(straight, 0.0), spot[1])
        colour += strength * reflected(
            base,
            gloss,
            normal,
            to_eye,
            to_light,
            lights.diffuse[n % lights.diffuse.shape[0], k],
            lights.specular[n % lights.specular.shape[0], k],
        )
    return colour


@wp.func
def ground_normal(ground: Ground, point: wp.vec3) -> wp.vec3:
    """Return the normal of a height field at a point."""
    u = (point[0] - ground.x) / ground.dx
    v = (point[1] - ground.y) / ground.dy
    c = wp.clamp(int(wp.floor(u)), 0, ground.heights.shape[1] - 2)
    r = wp.clamp(int(wp.floor(v)), 0, ground.heights.shape[0] - 2)
    low = ground.heights[r, c]
    high = ground.heights[r + 1, c + 1]
    if u - float(c) >= v - float(r):
        corner = ground.heights[r, c + 1]
        return wp.normalize(wp.vec3((low - corner) / ground.dx, (corner - high) / ground.dy, 1.0))
    corner = ground.heights[r + 1, c]
    return wp.normalize(wp.vec3((corner - high) / ground.dx, (low - corner) / ground.dy, 1.0))


@wp.func
def mesh_normal(shapes: Shapes, mesh: int, p: wp.vec3, d: wp.vec3, depth: float) -> wp.vec3:
    """Return the smooth normal of a mesh near a point of its surface, seen along ``d``."""
    room = 1.0e-3 * depth
    hit = wp.mesh_query_ray(shapes.mesh_id[mesh], p - room * d, d, 2.0 * room)
    if not hit.result:
        return -d
    at = shapes.first_corner[mesh] + 3 * hit.face
    normals = shapes.corner_normal
    return wp.normalize(
        hit.u * normals[at] + hit.v * normals[at + 1] + (1.0 - hit.u - hit.v) * normals[at + 2]
    )


@wp.func
def paint(
    view: View,
    ground: Ground,
    shapes: Shapes,
    textures: Textures,
    looks: Looks,
    lights: Lights,
    poses: Poses,
    eye: Eye,
    n: int,
    frame: wp.array2d(dtype=float),
    ids: wp.array2d(dtype=int),
    colours: wp.array2d(dtype=wp.uint8),
) -> None:
    """Colour all pixels.

    Args:
        view: The camera.
        ground: The height field.
        shapes: The geoms.
        textures: All textures.
        looks: The geoms' looks.
        lights: All lights.
        poses: Poses of geoms and lights.
        eye: The camera in the world.
        n: The environment.
        frame: 1 / depth.
        ids: The geom of each pixel; -1: none.
        colours: Red, green and blue of each pixel, ``(height, 3 * width)``; written.
    """
    backwards = -wp.vec3(eye.rotation[0, 2], eye.rotation[1, 2], eye.rotation[2, 2])
    across = wp.vec3(eye.rotation[0, 0], eye.rotation[1, 0], eye.rotation[2, 0])
    colour_row = n % looks.colour.shape[0]
    size_row = n % shapes.size.shape[0]
    for i in range(view.height):
        row = frame[i]
        shown = ids[i]
        out = colours[i]
        start = eye.rotation * wp.vec3(0.0, eye.y0 + float(i) * eye.dy, 1.0)
        for j in range(view.width):
            d = start + (eye.x0 + float(j) * eye.dx) * across
            geom = shown[j]
            colour = looks.background
            if geom >= 0:
                depth = 1.0 / row[j]
                point = eye.position + depth * d
                kind = shapes.kind[n % shapes.kind.shape[0], geom]
                turn = poses.geom_xmat[n, geom]
                size = shapes.size[size_row, geom]
                local = wp.transpose(turn) * (point - poses.geom_xpos[n, geom])
                normal = wp.vec3(0.0, 0.0, 1.0)
                if kind == HFIELD:
                    normal = ground_normal(ground, point)
                elif kind == MESH:
                    mesh = shapes.mesh[n % shapes.mesh.shape[0], geom]
                    normal = turn * mesh_normal(
                        shapes, mesh, local, wp.normalize(wp.transpose(turn) * d), depth
                    )
                else:
                    normal = turn * shape_normal(kind, size, local)
                # MuJoCo lights the corners of a plane's large squares, which miss its highlights.
                to_eye = backwards
                if kind != PLANE:
                    to_eye = -wp.normalize(d)
                colour = surface_colour(
                    lights,
                    poses,
                    n,
                    looks.colour[colour_row, geom],
                    looks.gloss[geom],
                    point,
                    normal,
                    to_eye,
                    backwards,
                )
                if looks.texture[geom] >= 0:
                    # OpenGL clamps what is lit before the texture colours it.
                    footprint = depth * eye.dy / wp.max(-wp.dot(normal, d), 0.02)
                    colour = wp.cw_mul(
                        wp.min(colour, wp.vec3(1.0, 1.0, 1.0)),
                        texture_colour(
                            textures,
                            looks,
                            geom,
                            kind,
                            size,
                            local,
                            wp.transpose(turn) * normal,
                            footprint,
                        ),
                    )
            elif looks.sky >= 0:
                colour = sky_colour(textures, looks.sky, d)
            for channel in range(3):
                value = wp.clamp(colour[channel], 0.0, 1.0)
                out[3 * j + channel] = wp.uint8(value * 255.0 + 0.5)
