"""Contact sensors that a configuration adds to the model: partners, reductions and single contacts.

A ball of 0.5 kg rests on a box of 2 kg, which rests on the floor; gravity is 10 m/s².
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, SceneEntityCfg, mdp
from envlab.envs.contact_match import ContactMatch
from envlab.envs.contact_sensor import ContactSensor, ContactSensorCfg
from envlab.envs.terms import reward
from tests.envs import hopper
from tests.envs.refusals import assert_refused
from tests.envs.sliders import terms

SCENE = """
<mujoco>
  <option timestep="0.01" gravity="0 0 -10"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 0.1"/>
    <body name="box" pos="0 0 0.1">
      <freejoint/><geom name="box" type="box" size="0.2 0.2 0.1" mass="1.5"/>
      <body name="core"><geom size="0.01" mass="0.5" contype="0" conaffinity="0"/></body>
    </body>
    <body name="arm" pos="2 0 1"><joint name="arm"/><geom size="0.1" mass="1"/></body>
    <body name="ball" pos="0 0 0.25">
      <freejoint/><geom name="ball" size="0.05" mass="0.5"/>
    </body>
  </worldbody>
  <actuator><position joint="arm" kp="10" kv="1"/></actuator>
</mujoco>
"""


def body(pattern: str, **settings: Any) -> ContactMatch:
    return ContactMatch(mode="body", pattern=pattern, **settings)


@pytest.fixture
def make(tmp_path):
    """Return a maker of environments in which all has come to rest."""
    path = tmp_path / "scene.xml"
    path.write_text(SCENE)

    def made(
        num_envs: int = 1,
        steps: int = 100,
        backend: str = "mujoco",
        decimation: int = 1,
        **sensors: Any,
    ) -> ManagerEnv:
        env = hopper.make_env(
            num_envs,
            decimation=decimation,
            sim={"data_fields": (), "backend": backend},
            sensors=terms(**sensors),
            scene=SceneCfg(num_envs=num_envs, model=str(path)),
        )
        for _ in range(steps):
            env.step(torch.zeros(num_envs, 1))
        return env

    return made


def sensor(env: ManagerEnv, name: str) -> ContactSensor:
    return env.sensor_manager.get_term(name)


def test_a_ball_on_a_box_feels_its_weight_from_the_box_and_nothing_from_the_floor(make):
    env = make(
        alone=ContactSensorCfg(primary=body("ball"), secondary=body("box|world")),
        box=ContactSensorCfg(primary=body("box"), secondary=body("ball|world")),
        net=ContactSensorCfg(primary=body("ball|box")),
    )
    alone, box, net = (sensor(env, name) for name in ("alone", "box", "net"))
    assert alone.partner_names == ["world", "box"]
    assert alone.force_matrix_w.shape == (1, 1, 2, 3)
    assert alone.force_matrix_w[0, 0, 0].tolist() == [0.0, 0.0, 0.0]
    assert alone.force_matrix_w[0, 0, 1].tolist() == pytest.approx([0, 0, 5.0], abs=1e-3)
    assert box.force_matrix_w[0, 0, :, 2].tolist() == pytest.approx([25.0, -5.0], abs=1e-2)
    assert box.contacts("found")[0, 0].tolist() == [4.0, 1.0]
    assert net.body_names == ["box", "ball"]
    assert net.net_forces_w[0, :, 2].tolist() == pytest.approx([20.0, 5.0], abs=1e-2)


@pytest.mark.parametrize("reduce", ["none", "mindist", "maxforce"])
def test_single_contacts_have_places_normals_and_forces_in_the_world(make, reduce):
    every = ("found", "force", "torque", "dist", "pos", "normal", "tangent")
    env = make(
        corners=ContactSensorCfg(
            primary=ContactMatch(mode="geom", pattern="box"),
            secondary=ContactMatch(mode="geom", pattern="floor"),
            fields=every,
            reduce=reduce,
            num_slots=6,
        )
    )
    corners = sensor(env, "corners")
    found = corners.contacts("found")[0, 0]
    assert found.tolist() == [4.0] * 4 + [0.0] * 2
    assert corners.contacts("force")[0, 0, :4].sum(dim=0).tolist() == pytest.approx(
        [0, 0, 25.0], abs=1e-2
    )
    assert torch.allclose(corners.net_forces_w[0, 0], torch.tensor([0, 0, 25.0]), atol=1e-2)
    pos = corners.contacts("pos")[0, 0, :4]
    assert torch.allclose(pos[:, :2].abs(), torch.full((4, 2), 0.2), atol=1e-3)
    assert pos[:, :2].sum(dim=0).tolist() == pytest.approx([0.0, 0.0], abs=1e-3)
    up = torch.tensor([0.0, 0.0, 1.0]).expand(4, 3)
    assert torch.allclose(corners.contacts("normal")[0, 0, :4], up, atol=1e-5)
    dist = corners.contacts("dist")[0, 0]
    assert (dist[:4] < 0.0).all()
    assert dist[4:].tolist() == [0.0, 0.0]
    assert corners.contacts("tangent").shape == corners.contacts("torque").shape == (1, 1, 6, 3)


def test_readings_of_the_latest_physics_steps_are_kept_and_restored(make):
    fields = ("found", "torque", "dist", "pos", "normal")
    corners = ContactSensorCfg(
        primary=body("box"),
        secondary=body("world|ball"),
        fields=fields,
        reduce="maxforce",
        num_slots=4,
        history_length=3,
    )
    env = make(corners=corners, steps=99)
    touch = sensor(env, "corners")
    before = {name: touch.contacts(name).clone() for name in ("torque", "dist", "force")}
    env.step(torch.zeros(1, 1))
    for name, then in before.items():
        history = touch.history(name)
        assert torch.equal(history[:, 0], touch.contacts(name)), name
        assert torch.equal(history[:, 1], then), name
        assert history.shape[:4] == (1, 3, 1, 8), name
    assert touch.force_matrix_w_history.shape == (1, 3, 1, 2, 3)
    assert torch.equal(touch.force_matrix_w_history[:, 0], touch.force_matrix_w)
    chosen = touch.select(SceneEntityCfg("corners", body_names="box"))
    assert torch.equal(chosen.history("dist"), touch.history("dist"))
    other = make(corners=corners, steps=0)
    other.set_state(env.state())
    assert torch.equal(sensor(other, "corners").history("dist"), touch.history("dist"))
    other.reset()
    assert not sensor(other, "corners").history("force").any()


def test_a_history_is_of_physics_steps_the_latest_first(make):
    settings = {"primary": body("box"), "history_length": 3}
    often, seldom = (
        sensor(make(steps=steps, decimation=decimation, box=ContactSensorCfg(**settings)), "box")
        for steps, decimation in ((3, 1), (1, 3))
    )
    forces = often.net_forces_w_history
    assert not torch.equal(forces[:, 0], forces[:, 2])
    assert torch.equal(seldom.net_forces_w_history, forces)


def test_places_and_friction_are_by_partner(make):
    """The box stands on the floor at its middle, and slides along x."""
    every = ("found", "pos", "normal")
    env = make(
        box=ContactSensorCfg(
            primary=body("box"),
            secondary=body("world|arm"),
            fields=every,
            reduce="mindist",
            num_slots=4,
        )
    )
    touch = sensor(env, "box")
    assert touch.partner_names == ["world", "arm"]
    place = touch.contact_pos_w[0, 0]
    assert place[0].tolist() == pytest.approx([0.0, 0.0, 0.0], abs=2e-3)
    assert place[1].isnan().all()
    qvel = torch.zeros_like(env.sim.data.qvel)
    qvel[:, 0] = 1.0
    env.sim.reset(torch.ones(1, dtype=torch.bool), env.sim.data.qpos.clone(), qvel)
    env.step(torch.zeros(1, 1))
    friction = touch.friction_forces_w[0, 0]
    total = touch.force_matrix_w[0, 0]
    assert friction[0, 0] < -5.0
    assert friction[0].tolist() == pytest.approx([*total[0, :2].tolist(), 0.0], abs=1e-3)
    assert friction[1].tolist() == [0.0, 0.0, 0.0]


def test_warp_measures_the_same(make):
    pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")
    corners = ContactSensorCfg(
        primary=body("box"), secondary=body("world"), fields=("pos",), reduce="mindist", num_slots=4
    )
    sensors = {
        "ball": ContactSensorCfg(primary=body("ball"), secondary=body("box|world")),
        "corners": corners,
    }
    env = make(steps=60, backend="mujoco_warp", **sensors)
    assert sensor(env, "ball").force_matrix_w[0, 0, :, 2].tolist() == pytest.approx(
        [0.0, 5.0], abs=1e-2
    )
    assert sensor(env, "corners").net_forces_w[0, 0, 2].item() == pytest.approx(25.0, abs=0.1)
    places = sensor(env, "corners").contacts("pos")[0, 0, :, :2].abs()
    assert torch.allclose(places, torch.full((4, 2), 0.2), atol=1e-3)


def test_a_subtree_counts_what_its_parts_feel(make):
    env = make(
        part=ContactSensorCfg(primary=ContactMatch(mode="subtree", pattern="box")),
        below=ContactSensorCfg(primary=body(".*", entity="box")),
    )
    assert sensor(env, "part").net_forces_w[0, 0, 2].item() == pytest.approx(20.0, abs=1e-2)
    assert sensor(env, "below").body_names == ["box", "core"]


def test_times_in_the_air_are_those_of_the_files_sensors():
    """A block that falls and lies, measured by the file's sensors and by added ones."""
    added = ContactSensorCfg(primary=body("block|arm"))
    env = hopper.make_env(sensors=terms(contact_forces=ContactSensorCfg(), added=added))
    hopper.place(env, height=0.3)
    file, ours = (sensor(env, name) for name in ("contact_forces", "added"))
    assert ours.body_names == file.body_names
    for _ in range(40):
        hopper.step(env)
        for name in ("net_forces_w", "force_norms", "in_contact", "first_contact"):
            assert torch.equal(getattr(ours, name), getattr(file, name)), name
        assert torch.equal(ours.last_air_time, file.last_air_time)
        assert torch.equal(ours.current_contact_time, file.current_contact_time)
    assert ours.last_air_time[0, 0] > 0.0


def test_partners_and_settings_that_do_not_exist_are_refused(make):
    def touch(**settings: Any) -> Any:
        return lambda: make(touch=ContactSensorCfg(**settings))

    ball = body("ball")
    term = reward(
        mdp.undesired_contacts,
        1.0,
        sensor_cfg=SceneEntityCfg("one", body_names="blok"),
        threshold=1,
    )
    assert_refused(
        {
            "secondary names the body 'bx', but the model has .*Did you mean box": touch(
                primary=ball, secondary=body("bx")
            ),
            "primary names the geom 'bell', .*Did you mean ball": touch(
                primary=ContactMatch(mode="geom", pattern="bell")
            ),
            "the entity 'bax', .*Did you mean box": touch(primary=body(".*", entity="bax")),
            "primary excludes all": touch(primary=body("ball", exclude=[".*"])),
            "primary.mode is 'bodies', but must": touch(primary=ContactMatch(mode="bodies")),
            "fields name 'forse', .*Did you mean force": touch(primary=ball, fields=("forse",)),
            "touch.reduce is 'maxforces', but must": touch(primary=ball, reduce="maxforces"),
            "asks for num_slots=3, which a sum": touch(primary=ball, num_slots=3),
            "asks for 'dist', which a sum": touch(primary=ball, fields=("dist",)),
            r"has secondary=.*, but no primary": touch(secondary=ball),
            "asks a contact sensor for 'pos', but its fields are": lambda: sensor(
                make(one=ContactSensorCfg(primary=ball)), "one"
            ).contacts("pos"),
            "asks a contact sensor for contacts": lambda: sensor(
                hopper.make_env(), "contact_forces"
            ).contacts("pos"),
            "matches 'blok'; .*Did you mean block.* sensor's primary": lambda: hopper.make_env(
                sensors=terms(one=ContactSensorCfg(primary=body("block|arm"))),
                rewards=terms(touch=term),
            ),
        }
    )
