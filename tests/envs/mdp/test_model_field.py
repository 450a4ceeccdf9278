"""Any field of the model is drawn per environment: rows, columns, distributions and operations."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from mujoco import batch

from envlab.envs import ManagerEnv, SceneCfg, SceneEntityCfg, mdp
from envlab.envs.managers import EventTermCfg
from envlab.envs.math import quat_mul
from envlab.envs.mdp import dr
from envlab.envs.mdp.pseudo_inertia import transformed
from envlab.envs.terms import at_reset, at_startup
from tests.envs.promises import assert_keeps_promises
from tests.envs.refusals import assert_refused
from tests.envs.sliders import assert_spans, make_cfg, rank, terms

MODEL = str(Path(__file__).with_name("parts.xml"))
MANY = 400


def cfg_of(num_envs: int = MANY, sim: dict[str, Any] | None = None, **events: Any) -> Any:
    cfg = make_cfg(
        num_envs,
        sim={"dt": 0.01, **(sim or {})},
        events=terms(**events),
        actions=terms(force=mdp.JointEffortActionCfg(joint_names="elbow")),
    )
    cfg.scene = SceneCfg(num_envs=num_envs, model=MODEL, ground=False)
    return cfg


def made(num_envs: int = MANY, sim: dict[str, Any] | None = None, **events: Any) -> ManagerEnv:
    return ManagerEnv(cfg_of(num_envs, sim, **events), context=rank(0, 1), seed=0)


def started(func: Any, num_envs: int = MANY, **params: Any) -> ManagerEnv:
    return made(num_envs, change=at_startup(func, **params))


def of(**names: Any) -> SceneEntityCfg:
    return SceneEntityCfg(**names)


BALL, FORE = of(geom_names="ball"), of(geom_names=["upper", "fore"])
ARM = of(joint_names=["shoulder", "elbow"])


def test_operations_start_from_the_models_own_values():
    for operation, expected in {"add": 0.9, "scale": 0.2, "abs": 0.4, "set": 0.4}.items():
        env = started(
            mdp.randomize_model_field,
            2,
            field="dof_damping",
            ranges=(0.4, 0.4),
            operation=operation,
            asset_cfg=of(joint_names="shoulder"),
        )
        damping = env.sim.params.dof_damping
        assert torch.allclose(damping[:, 6], torch.tensor(expected)), operation
        assert torch.allclose(damping[:, 7], torch.tensor(0.1))


def test_distributions_have_their_bounds_and_moments():
    def drawn(distribution: str, ranges: Any) -> torch.Tensor:
        params = {"field": "dof_damping", "ranges": ranges, "asset_cfg": ARM}
        env = started(mdp.randomize_model_field, distribution=distribution, **params)
        return env.sim.params.dof_damping[:, 6:8]

    uniform = drawn("uniform", (1.0, 3.0))
    assert_spans(uniform, 1.0, 3.0)
    assert not torch.equal(uniform[:, 0], uniform[:, 1])
    log = drawn("log_uniform", (0.1, 10.0)).log10()
    assert_spans(log, -1.0, 1.0)
    assert log.mean() == pytest.approx(0.0, abs=0.1)
    for name in ("gaussian", "normal"):
        normal = drawn(name, {"shoulder": (5.0, 0.5), "elbow": (9.0, 0.1)})
        assert normal.mean(dim=0).tolist() == pytest.approx([5.0, 9.0], abs=0.1)
        assert normal.std(dim=0).tolist() == pytest.approx([0.5, 0.1], rel=0.15)


def test_rows_and_columns_are_shared_or_each_their_own():
    shared = started(
        mdp.randomize_model_field,
        field="geom_friction",
        ranges={0: (0.5, 1.0), 2: (0.0, 0.1)},
        shared_random=True,
        asset_cfg=FORE,
    )
    friction, rows = shared.sim.params.geom_friction, slice(3, 5)
    assert torch.equal(friction[:, 3], friction[:, 4])
    assert_spans(friction[:, rows, 0], 0.5, 1.0)
    assert_spans(friction[:, rows, 2], 0.0, 0.1)
    assert (friction[:, rows, 1] == friction[0, 3, 1]).all()
    assert (friction[:, :3] == friction[0, :3]).all()
    own = started(mdp.randomize_model_field, field="body_pos", ranges=(0.0, 1.0), axes=[1])
    moved = own.sim.params.body_pos
    assert moved[:, 1:, 1].unique().numel() == moved[:, 1:, 1].numel()
    assert (moved[:, :, ::2] == moved[0, :, ::2]).all()
    named = started(mdp.randomize_model_field, field="geom_size", ranges={"u.*": (0.2, 0.3)})
    assert_spans(named.sim.params.geom_size[:, 3], 0.2, 0.3)
    assert (named.sim.params.geom_size[:, 4] == named.sim.params.geom_size[0, 4]).all()


PLAIN = """
joint_armature joint_damping joint_friction joint_limits joint_stiffness site_pos tendon_armature
tendon_damping tendon_friction tendon_stiffness cam_fovy cam_intrinsic cam_pos light_ambient
light_attenuation light_cutoff light_diffuse light_dir light_exponent light_pos light_specular
mat_emission mat_shininess mat_specular mat_texrepeat pair_friction""".split()
ABSOLUTE = {"operation": "abs"}
EACH: dict[str, dict[str, Any]] = {
    **{name: {} for name in PLAIN},
    **{f"geom_{name}": {"asset_cfg": BALL} for name in ("friction", "pos", "rgba")},
    **dict.fromkeys(("body_mass", "body_com_offset", "body_pos", "joint_default_pos"), ABSOLUTE),
    "geom_size": ABSOLUTE | {"asset_cfg": BALL, "axes": [0]},
    "mat_rgba": {"asset_cfg": of(material_names="red")},
}
"""By mjlab's name, what it needs besides its range."""


def test_each_of_mjlabs_names_changes_its_field():
    for name, params in EACH.items():
        env = started(getattr(dr, name), 40, ranges=(0.1, 0.9), **params)
        (field,) = env.sim.params
        values = env.sim.params[field]
        changed = (values != env.nominal(field)).flatten(1)
        assert changed.any(dim=1).all(), name
        assert_spans(values.flatten(1)[:, changed.all(dim=0)], 0.1, 0.9, margin=0.2)


def test_a_field_has_both_of_mjlabs_names():
    twice = {
        **{"dof_armature": "joint_armature", "dof_damping": "joint_damping"},
        **{"dof_frictionloss": "joint_friction", "jnt_range": "joint_limits"},
        **{"jnt_stiffness": "joint_stiffness", "qpos0": "joint_default_pos"},
        **{"body_ipos": "body_com_offset", "tendon_frictionloss": "tendon_friction"},
    }
    for name, other in twice.items():
        assert getattr(dr, name) is getattr(dr, other), name
        assert other in EACH


@pytest.mark.parametrize("field", ["geom_quat", "body_quat", "site_quat", "cam_quat"])
def test_orientations_turn_from_the_models_own(field):
    env = started(getattr(dr, field), 60, yaw_range=(-0.5, 0.5))
    found, own = env.sim.params[field], env.nominal(field)
    assert torch.allclose(found.norm(dim=2), torch.ones(found.shape[:2]), atol=1e-6)
    angle = 2.0 * (found * own).sum(dim=2).abs().clamp(max=1.0).acos()
    assert_spans(angle[:, -1], 0.0, 0.5, margin=0.2)
    half = 0.25 * math.pi  # a fixed turn by 90 degrees about z, before the model's own
    turn = torch.tensor([math.cos(half), 0.0, 0.0, math.sin(half)])
    quarter = (0.5 * math.pi, 0.5 * math.pi)
    env = started(mdp.randomize_orientation, 2, field=field, yaw_range=quarter)
    expected = quat_mul(turn.expand_as(own), own)
    found = env.sim.params[field][:, -1]  # of the robot, not of the world
    assert torch.allclose((found * expected[-1]).sum(dim=1).abs(), torch.ones(2), atol=1e-6)


def test_gravity_of_each_environment():
    falls = at_startup(
        mdp.randomize_physics_scene_gravity,
        gravity_distribution_params=([0.0, 0.0, -4.0], [0.0, 0.0, 4.0]),
        operation="add",
    )
    env = made(50, change=falls)
    gravity = env.sim.params["opt.gravity"]
    assert_spans(gravity[:, 2], -14.0, -6.0, margin=0.2)
    env.step(torch.zeros(50, 1))
    assert torch.allclose(env.sim.data.qvel[:, 2], 0.01 * gravity[:, 2], rtol=1e-4)
    other = made(50, change=falls)
    other.set_state(env.state())
    assert torch.equal(other.sim.params["opt.gravity"], gravity)


def test_a_moved_centre_size_or_place_counts_in_physics():
    """MuJoCo has shortcuts for parts at their body's origin, and constants of sizes and masses."""
    places = made(
        3,
        sim={"data_fields": ("geom_xpos", "site_xpos", "xipos")},
        geom=at_startup(dr.geom_pos, ranges={1: (0.3, 0.3)}, asset_cfg=BALL),
        size=at_startup(dr.geom_size, ranges=(2.0, 2.0), asset_cfg=BALL),
        site=at_startup(dr.site_pos, ranges={2: (0.5, 0.5)}),
        com=at_startup(dr.body_com_offset, ranges={0: (0.2, 0.2)}, asset_cfg=of(body_names="ball")),
    )
    data, model = places.sim.data, places.sim.model_of(1)
    assert data.geom_xpos[:, 1].tolist() == [pytest.approx([0.0, 0.3, 1.0])] * 3
    assert data.site_xpos[:, 0].tolist() == [pytest.approx([0.0, 0.0, 1.5])] * 3
    own = places.sim.model.body_ipos[1, 0]
    assert data.xipos[:, 1, 0].tolist() == pytest.approx([own + 0.2] * 3)
    assert model.geom_rbound[1] == pytest.approx(0.2)


def test_derived_constants_follow_events_of_one_reset(monkeypatch):
    heavy = at_startup(dr.body_mass, ranges=(2.0, 2.0))
    stiff = at_startup(dr.joint_armature, ranges=(0.5, 0.5))
    calls = []
    set_const = batch.Batch.set_const
    monkeypatch.setattr(batch.Batch, "set_const", lambda *args: (calls.append(1), set_const(*args)))
    env = made(2, heavy=heavy, stiff=stiff)
    assert len(calls) == 1
    model = mujoco.MjModel.from_xml_path(MODEL)
    model.body_mass[1:] *= 2.0
    model.dof_armature[6:] = 0.5
    mujoco.mj_setConst(model, mujoco.MjData(model))
    found = env.sim.model_of(0)
    for name in ("body_subtreemass", "dof_invweight0", "body_invweight0"):
        assert np.allclose(getattr(found, name), getattr(model, name), rtol=1e-5), name


def test_pseudo_inertia_is_that_of_the_transformed_body():
    random = np.random.default_rng(0)
    mass, ipos = random.uniform(0.5, 2.0, 6), random.uniform(-0.5, 0.5, (6, 3))
    moments = random.uniform(0.01, 0.1, (6, 3))
    inertia = moments.sum(1, keepdims=True) - moments
    quat = random.normal(size=(6, 4))
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    drawn = random.uniform(-0.4, 0.4, (3, 6, 10))
    found = transformed(*map(torch.from_numpy, (mass, ipos, inertia, quat, drawn)))

    def rotation(q: np.ndarray) -> np.ndarray:
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, q)
        return matrix.reshape(3, 3)

    def pseudo(m: float, c: np.ndarray, i: np.ndarray, q: np.ndarray) -> np.ndarray:
        tensor = rotation(q) @ np.diag(i) @ rotation(q).T + m * (c @ c * np.eye(3) - np.outer(c, c))
        whole = np.zeros((4, 4))
        whole[:3, :3] = 0.5 * np.trace(tensor) * np.eye(3) - tensor
        whole[:3, 3] = whole[3, :3] = m * c
        whole[3, 3] = m
        return whole

    for env in range(3):
        for body in range(6):
            a, d1, d2, d3, s12, s13, s23, t1, t2, t3 = drawn[env, body]
            upper = np.exp(a) * np.array(
                [
                    [np.exp(d1), s12, s13, t1],
                    [0.0, np.exp(d2), s23, t2],
                    [0.0, 0.0, np.exp(d3), t3],
                    [0.0, 0.0, 0.0, 1.0],
                ]
            )
            factor = upper @ np.linalg.cholesky(
                pseudo(mass[body], ipos[body], inertia[body], quat[body])
            )
            one = {name: values[env, body].numpy() for name, values in found.items()}
            again = pseudo(one["mass"], one["ipos"], one["inertia"], one["iquat"])
            assert np.allclose(again, factor @ factor.T, rtol=0.0, atol=1e-12)


def test_pseudo_inertia_of_a_density_scales_mass_and_inertia_alone():
    half = math.log(2.0) / 2.0
    env = started(mdp.pseudo_inertia, 2, alpha_range=(half, half))
    params = env.sim.params
    for name in ("body_mass", "body_inertia"):
        assert torch.allclose(params[name], 2.0 * env.nominal(name), rtol=1e-5)
    assert torch.allclose(params.body_ipos, env.nominal("body_ipos"), atol=1e-6)
    assert torch.allclose(params.body_iquat, env.nominal("body_iquat"), atol=1e-6)
    shifted = started(mdp.pseudo_inertia, 50, t_range=(-0.1, 0.1))
    moved = shifted.sim.params.body_ipos - shifted.nominal("body_ipos")
    assert_spans(moved[:, 1:], -0.1, 0.1, margin=0.1)


def test_gains_efforts_tendons_and_pairs():
    env = made(
        40,
        gains=at_startup(
            dr.pd_gains,
            kp_range=(2.0, 2.0),
            kd_range=(3.0, 3.0),
            asset_cfg=of(joint_names="shoulder"),
        ),
        effort=at_startup(
            dr.effort_limits, effort_limit_range=(0.5, 1.0), asset_cfg=of(joint_names="shoulder")
        ),
        tendon=at_startup(
            mdp.randomize_fixed_tendon_parameters,
            stiffness_distribution_params=(2.0, 2.0),
            lower_limit_distribution_params=(0.1, 0.2),
            rest_length_distribution_params=(0.3, 0.4),
            operation="add",
        ),
        pair=at_startup(dr.pair_friction, ranges=(0.1, 0.9), isotropic=True),
    )
    params = env.sim.params
    assert params.actuator_gainprm[0, 0, 0] == 40.0
    assert params.actuator_biasprm[0, 0, :3].tolist() == [0.0, -40.0, -3.0]
    limits = params.actuator_forcerange[:, 0]
    assert torch.equal(limits[:, 0], -limits[:, 1])
    assert_spans(limits[:, 1], 4.0, 8.0, margin=0.2)
    assert (params.tendon_stiffness == 4.0).all()
    assert_spans(params.tendon_range[:, 0, 0], -0.9, -0.8, margin=0.2)
    spring = params.tendon_lengthspring[:, 0]
    assert torch.equal(spring[:, 0], spring[:, 1])
    assert torch.equal(params.pair_friction[:, 0, 0], params.pair_friction[:, 0, 1])
    # The limited motor gives no more than its own limit.
    env.sim.ctrl[:, 0] = 10.0
    assert env.sim.model_of(0).actuator_forcerange[0, 1] == pytest.approx(float(limits[0, 1]))


def test_restitution_gives_back_a_share_of_the_speed():
    falls = at_startup(
        mdp.randomize_rigid_body_material,
        friction_range=(0.0, 0.0),
        restitution_range=(0.6, 0.6),
        asset_cfg=BALL,
    )
    model = made(1, change=falls).sim.model_of(0)
    model.opt.timestep = 0.0002
    data = mujoco.MjData(model)
    speeds = []
    for _ in range(6000):
        mujoco.mj_step(model, data)
        speeds.append(float(data.qvel[2]))
    assert max(speeds) == pytest.approx(0.6 * -min(speeds), rel=0.15)


def test_shapes_and_colours_differ_and_show():
    grown = at_startup(
        mdp.randomize_rigid_body_scale,
        scale_range=(0.5, 2.0),
        asset_cfg=of(geom_names=["ball", "nose"]),
    )
    paint = at_reset(
        mdp.randomize_visual_color, colors=[(1.0, 0.0, 0.0), (0.0, 1.0, 0.0)], asset_cfg=BALL
    )
    env = made(60, grown=grown, paint=paint)
    sizes = env.sim.params.geom_size
    assert_spans(sizes[:, 1, 0], 0.05, 0.2, margin=0.2)
    assert torch.allclose(sizes[:, 2] / sizes[:, 1, :1], torch.tensor([0.2, 0.4, 0.6]))
    assert torch.allclose(env.sim.params.geom_pos[:, 2, 0], sizes[:, 1, 0])
    colours = env.sim.params.geom_rgba[:, 1, :3]
    assert colours.unique(dim=0).tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    model = env.sim.model_of(3)
    assert model.geom_rgba[1, :3].tolist() == colours[3].tolist()


def test_materials_and_textures_are_chosen():
    env = made(
        60,
        mat=at_startup(dr.geom_matid, asset_cfg=of(geom_names="ball")),
        tex=at_startup(
            dr.mat_texid, asset_cfg=of(material_names="tiles", texture_names=["checks", "plain"])
        ),
    )
    assert env.sim.params.geom_matid[:, 1].unique().tolist() == [0.0, 1.0]
    role = int(mujoco.mjtTextureRole.mjTEXROLE_RGB)
    assert env.sim.params.mat_texid[:, 1, role].unique().tolist() == [0.0, 1.0]
    model = env.sim.model_of(2)
    assert model.geom_matid[1] == int(env.sim.params.geom_matid[2, 1])


def test_what_makes_no_sense_is_refused():
    def field(name: str, **params: Any) -> Any:
        return lambda: started(
            mdp.randomize_model_field, 1, field=name, **({"ranges": (0.1, 0.2)} | params)
        )

    backend = {"sim": {"backend": "analytic"}}
    damping = at_startup(dr.geom_friction, ranges=(0.1, 1.0))
    assert_refused(
        {
            "An event or .*'geom_frictoin'.*Did you mean geom_friction": field("geom_frictoin"),
            "'geom_friction', but the analytic backend has only": lambda: made(
                1, change=damping, **backend
            ),
            "column 3 of 'geom_friction', which has columns 0 to 2": field(
                "geom_friction", axes=[3]
            ),
            "column 1 of 'geom_friction', which has no range": field(
                "geom_friction", axes=[1], ranges={0: (0.1, 0.2)}
            ),
            "'wrist' of an event that changes 'dof_damping' matches none of shoulder": field(
                "dof_damping", ranges={"wrist": (0.1, 0.2)}
            ),
            "needs two numbers": field("dof_damping", ranges=(0.1, 0.2, 0.3)),
            "changes the size of a capsule": lambda: started(
                mdp.randomize_rigid_body_scale,
                1,
                scale_range={"x": (1.0, 2.0)},
                asset_cfg=of(geom_names="upper"),
            ),
            "limits that some of the actuators": lambda: started(
                dr.effort_limits, 1, effort_limit_range=(0.5, 1.0)
            ),
            "can only scale limits": lambda: started(
                dr.effort_limits, 1, effort_limit_range=(0.5, 1.0), operation="add"
            ),
        }
    )


def test_the_warp_backend_varies_the_same():
    pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")
    events = {
        "gravity": at_startup(
            mdp.randomize_physics_scene_gravity,
            gravity_distribution_params=([0.0, 0.0, -4.0], [0.0, 0.0, 4.0]),
            operation="add",
        ),
        "inertia": at_startup(mdp.pseudo_inertia, alpha_range=(-0.2, 0.2), t_range=(-0.05, 0.05)),
        "size": at_startup(dr.geom_size, ranges=(0.5, 2.0), asset_cfg=BALL),
        "damping": EventTermCfg(
            func=mdp.randomize_model_field,
            mode="reset",
            params={"field": "dof_damping", "ranges": (0.1, 2.0)},
        ),
    }
    found = []
    for backend in ("mujoco", "mujoco_warp"):
        env = made(3, sim={"backend": backend}, **events)
        for _ in range(3):
            env.step(torch.ones(3, 1))
        found.append((dict(env.sim.params.items()), env.sim.data.qpos.clone(), env.sim.model_of(1)))
    (params, qpos, model), (others, other_qpos, other_model) = found
    for name, values in params.items():
        assert torch.allclose(values, others[name], atol=1e-6), name
    assert torch.allclose(qpos, other_qpos, atol=1e-4)
    assert np.allclose(model.opt.gravity, other_model.opt.gravity)
    assert model.geom_rbound[1] == pytest.approx(other_model.geom_rbound[1], rel=1e-5)


def test_a_picture_shows_the_colours_and_the_camera_of_its_own_environment():
    paint = at_startup(
        mdp.randomize_visual_color,
        colors=[(1.0, 0.0, 0.0), (0.0, 1.0, 0.0)],
        asset_cfg=of(geom_names=["ball", "nose"]),
    )
    near = at_startup(dr.cam_fovy, ranges=(10.0, 12.0))
    env = made(6, paint=paint, near=near)
    colours = env.sim.params.geom_rgba[:, 1, :3]
    for index in (0, 1, 2, 3, 1):
        seen = env.picture(index, height=48, width=48).reshape(-1, 3).astype(float)
        strongest = seen[np.ptp(seen, axis=1).argmax()]
        assert int(strongest.argmax()) == int(colours[index].argmax()), index
    env.close()


def test_all_kinds_of_randomisation_keep_the_promises_of_every_task():
    """Seeds, resumes, ranks and a GPU's graphs, if they are drawn at each reset."""
    shoulder = of(joint_names="shoulder")
    pulled = {"gravity_distribution_params": ([0.0, 0.0, 0.0], [0.0, 0.0, 1.0])}
    events = {
        "inertia": at_reset(mdp.pseudo_inertia, alpha_range=(-0.2, 0.2), s12_range=(0.0, 0.1)),
        "mass": at_reset(
            mdp.randomize_rigid_body_mass, mass_distribution_params=(0.9, 1.1), operation="scale"
        ),
        "gravity": at_reset(
            mdp.randomize_physics_scene_gravity, operation="add", distribution="normal", **pulled
        ),
        "turn": at_reset(dr.body_quat, yaw_range=(-0.1, 0.1), asset_cfg=of(body_names="fore")),
        "damping": at_reset(dr.joint_damping, ranges={"shoulder": (0.1, 0.9), "elbow": (1.0, 2.0)}),
        "scale": at_reset(
            mdp.randomize_rigid_body_scale, scale_range=(0.5, 1.5), asset_cfg=of(geom_names="ball")
        ),
        "effort": at_reset(dr.effort_limits, effort_limit_range=(0.5, 1.0), asset_cfg=shoulder),
        "gains": at_reset(
            dr.pd_gains, kp_range=(0.5, 1.0), kd_range=(0.5, 1.0), asset_cfg=shoulder
        ),
        "tendon": at_reset(
            mdp.randomize_fixed_tendon_parameters, rest_length_distribution_params=(0.1, 0.2)
        ),
        "material": at_reset(
            mdp.randomize_rigid_body_material,
            friction_range=(0.1, 0.9),
            restitution_range=(0.1, 0.5),
        ),
        "pair": at_reset(dr.pair_friction, ranges={0: (0.1, 0.9), 3: (0.0, 0.1)}, isotropic=True),
        "paint": at_reset(mdp.randomize_visual_color, colors=[(1.0, 0.0, 0.0), (0.0, 1.0, 0.0)]),
        "choice": at_reset(dr.geom_matid, asset_cfg=of(geom_names="nose")),
        "upright": at_reset(
            mdp.reset_root_state_with_random_orientation,
            pose_range={"z": (0.5, 1.0)},
            velocity_range={"x": (-1.0, 1.0)},
            asset_cfg=of(name="ball"),
        ),
    }
    assert_keeps_promises(cfg_of(8, **events))
