"""``envlab terms`` parses sources, and must list the same terms as an import finds."""

from __future__ import annotations

import functools
import inspect
import json

from envlab import cli
from envlab.envs import mdp
from envlab.envs.managers import ActionTermCfg, CommandTermCfg
from envlab.tools.terms import KINDS, Term, find_terms


@functools.cache
def listed() -> dict[str, Term]:
    return {term.name: term for term in find_terms()}


CALLED_BY_TERMS = (
    *("base_pose", "body_poses", "initial_final_interpolate_fn"),
    *("site_orientations", "site_positions"),
)


def test_shared_functions_are_listed_with_their_parameters():
    for name in mdp.__all__:
        value = getattr(mdp, name)
        if not inspect.isfunction(value) or name in CALLED_BY_TERMS:
            continue
        term = listed()[f"mdp.{name}"]
        parameters = inspect.signature(value).parameters.values()
        wanted = {
            each.name: "..." if each.default is each.empty else "given"
            for each in parameters
            if each.name not in ("env", "mask", "stream")
        }
        found = {key: "..." if text == "..." else "given" for key, text in term.params.items()}
        assert found == wanted
        assert term.summary == (value.__doc__ or "").partition("\n")[0]


def test_actions_and_commands_are_listed_with_inherited_fields():
    for kind, base in (("action", ActionTermCfg), ("command", CommandTermCfg)):
        wanted = {
            f"mdp.{name}"
            for name in mdp.__all__
            if inspect.isclass(getattr(mdp, name)) and issubclass(getattr(mdp, name), base)
        }
        named = {name for name, term in listed().items() if term.kinds == [kind]}
        assert wanted == {name for name in named if name.startswith("mdp.")}
    assert listed()["mdp.UniformCommandCfg"].params == {
        "resampling_time_range": "...",
        "ranges": "...",
        "marker_height_m": "None",
    }


def test_a_term_is_of_the_kind_it_is_used_as():
    for name, kinds in [
        ("mdp.base_pos_z", ["observation"]),
        ("mdp.track_lin_vel_xy_exp", ["reward"]),
        ("mdp.bad_orientation", ["termination"]),
        ("mdp.push_by_setting_velocity", ["event"]),
        ("mdp.apply_body_impulse", ["event"]),
        ("mdp.dr.geom_size", ["event"]),
        ("mdp.dr.joint_damping", ["event"]),
        ("mdp.modify_reward_weight", ["curriculum"]),
        ("envlab_tasks.classic.locomotion.terms:progress_reward", ["reward"]),
    ]:
        assert listed()[name].kinds == kinds


def test_terms_are_chosen_by_kind_and_word(capsys):
    assert cli.main(["terms", "curricula", "--json"]) == 0
    names = [term["name"] for term in json.loads(capsys.readouterr().out)]
    assert names == [
        *("mdp.DifficultyScheduler", "mdp.commands_vel", "mdp.modify_env_param"),
        *("mdp.modify_reward_weight", "mdp.modify_term_cfg", "mdp.reward_curriculum"),
        *("mdp.termination_curriculum", "mdp.terrain_levels_vel"),
    ]
    assert cli.main(["terms", "--keyword=FORCE on any"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "TERMINATIONS",
        "  mdp.illegal_contact(threshold, sensor_cfg)",
        "      Return whether the force on any of the bodies is above ``threshold``, in N."
        "  [envlab.envs.mdp.contacts]",
    ]
    assert {kind for term in listed().values() for kind in term.kinds} == set(KINDS)


def test_all_of_mjlabs_randomisations_are_listed():
    names = {
        name
        for name, value in vars(mdp.dr).items()
        if hasattr(value, "model_fields") and not name.startswith("randomize")
    } - {"pseudo_inertia"}
    assert {f"mdp.dr.{name}" for name in names} <= set(listed())
    assert len(names) >= 51
    assert listed()["mdp.dr.joint_damping"].summary == mdp.dr.joint_damping.__doc__
    operations = {
        name: listed()[f"mdp.dr.{name}"].params["operation"]
        for name in ("body_mass", "body_pos", "cam_fovy")
    }
    assert operations == {"body_mass": "'scale'", "body_pos": "'add'", "cam_fovy": "'abs'"}
