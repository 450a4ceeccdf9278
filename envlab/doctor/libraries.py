"""Which libraries are there, whether they load, and what each can do on this machine."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from envlab import __version__
from envlab.doctor.probe import Answer, Probe, ask
from envlab.doctor.report import Finding

SECTION = "Libraries"
IMPORT_DEADLINE_S = 120.0
"""All of torch's libraries load in 6 s on two idle cores; a busy machine takes many times that."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package that envlab uses."""

    distribution: str
    """Its name at the package index."""
    role: str
    """What it is for here."""
    module: str = ""
    """What is imported to see whether it loads; empty: nothing."""
    group: str = ""
    """Packages of a group are loaded by one process, for they share what takes long."""
    needed: bool = True
    """Whether envlab does nothing without it."""
    hint: str = ""
    """How to install it, where it is optional."""


def _extra(name: str) -> str:
    return f"pip install -c constraints.txt -e '.[{name}]'"


PACKAGES = (
    Package(distribution="torch", module="torch", group="torch", role="learning"),
    Package(distribution="mujoco", module="mujoco.batch", group="mujoco", role="physics on CPU"),
    Package(
        distribution="mujoco-warp",
        module="mujoco_warp",
        group="mujoco",
        role="physics on GPU",
        needed=False,
        hint=_extra("warp"),
    ),
    Package(distribution="gymnasium", role="environments"),
    Package(distribution="hydra-core", role="configuration"),
    Package(distribution="numpy", role="arrays"),
    Package(distribution="rsl-rl-lib", module="rsl_rl.runners", group="torch", role="rsl_rl"),
    Package(
        distribution="rl-games",
        module="rl_games.torch_runner",
        group="torch",
        role="rl_games",
    ),
    Package(
        distribution="skrl", module="skrl.agents.torch.ppo", group="torch", role="skrl on torch"
    ),
    Package(
        distribution="jax",
        module="jax",
        group="jax",
        role="skrl on JAX",
        needed=False,
        hint=_extra("jax"),
    ),
    Package(
        distribution="flax",
        module="flax",
        group="jax",
        role="skrl on JAX",
        needed=False,
        hint=_extra("jax"),
    ),
    Package(distribution="onnxruntime", role="export by play", needed=False, hint=_extra("export")),
    Package(distribution="av", role="--video", needed=False, hint=_extra("video")),
    Package(distribution="matplotlib", role="compare", needed=False, hint=_extra("compare")),
    Package(distribution="wandb", role="--logger wandb", needed=False, hint="pip install wandb"),
)
_ON_RANKS = ("torch", "rsl-rl-lib", "rl-games", "skrl", "jax")
"""What trains, and so can do it on several processes."""


def versions() -> dict[str, str | None]:
    """Return the installed version of Python, envlab and each package, null where it is absent."""
    found: dict[str, str | None] = {
        "python": platform.python_version(),
        "envlab": __version__,
    }
    for package in PACKAGES:
        try:
            found[package.distribution] = importlib.metadata.version(package.distribution)
        except importlib.metadata.PackageNotFoundError:
            found[package.distribution] = None
    return found


def supported_versions() -> dict[str, Requirement]:
    """Return what envlab's own metadata asks for, by package; empty if it is not installed."""
    try:
        lines = importlib.metadata.requires("envlab") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def library_probes() -> list[Probe]:
    """Return the probes that load the installed libraries, and that ask JAX for its devices."""
    groups = _modules_by_group(versions())
    probes = [_import_probe(group, modules) for group, modules in groups.items()]
    if "jax" in groups:
        probes.append(Probe(name="jax", deadline_s=IMPORT_DEADLINE_S))
    return probes


def examine_libraries(answers: Mapping[str, Answer]) -> tuple[list[Finding], dict[str, Any]]:
    """Look at every package.

    Args:
        answers: What :func:`library_probes` and the torch probe, which tells about GPUs, said.
    """
    installed, supported = versions(), supported_versions()
    loads = _note_all_loads(_modules_by_group(installed), answers)
    torch, jax = answers["torch"], answers.get("jax", Answer())
    num_gpus = len(torch.get("gpus", []))
    findings = [_python(), _envlab(supported)]
    for package in PACKAGES:
        name = package.distribution
        ability = _ability(package, num_gpus, torch, jax)
        problem = loads.get(package.module)
        findings.append(
            judge_package(package, installed[name], supported.get(name), problem, ability)
        )
    findings += _mismatch(installed, num_gpus)
    return findings, {"versions": installed, "loads": loads, "jax": jax.facts}


def judge_package(
    package: Package,
    version: str | None,
    supported: Requirement | None,
    problem: str | None,
    ability: str,
) -> Finding:
    """Return the line of a package.

    Args:
        package: The package.
        version: Its version, null where it is absent.
        supported: What envlab asks for, if it says.
        problem: Why it does not load; null if it does, or is not loaded.
        ability: What it can do here.
    """
    name, install = package.distribution, package.hint or "pip install -c constraints.txt -e ."
    if version is None:
        if package.needed:
            advice = f"install it: {install}"
            return Finding(
                section=SECTION, name=name, text="not installed", state="problem", advice=advice
            )
        text = f"not installed; only for {package.role} ({install})"
        return Finding(section=SECTION, name=name, text=text, state="note")
    wanted = supported.specifier if supported is not None else SpecifierSet()
    if problem is not None:
        return Finding(
            section=SECTION,
            name=name,
            text=f"{version} does not load: {problem}",
            state="problem" if package.needed else "warning",
            advice=f"install it anew at the version envlab is tested with: {install}",
        )
    if not wanted.contains(version, prereleases=True):
        return Finding(
            section=SECTION,
            name=name,
            text=f"{version}, but envlab supports {_range(wanted)}",
            state="problem" if package.needed else "warning",
            advice=f"install the supported version: {install}",
        )
    range_text = f" (supported: {_range(wanted)})" if wanted else ""
    return Finding(section=SECTION, name=name, text=f"{version}{range_text}; {ability}")


def _range(specifiers: SpecifierSet) -> str:
    """Return a range with its lower end first."""
    return ",".join(sorted(map(str, specifiers), reverse=True))


def _python() -> Finding:
    text = f"{platform.python_version()}, {sys.executable}"
    return Finding(section=SECTION, name="python", text=text)


def _envlab(supported: Mapping[str, Requirement]) -> Finding:
    if not supported:
        return Finding(
            section=SECTION,
            name="envlab",
            text=f"{__version__}, not installed: which versions it supports is not known",
            state="warning",
            advice="install it: pip install -c constraints.txt -e .",
        )
    return Finding(section=SECTION, name="envlab", text=__version__)


def _ability(package: Package, num_gpus: int, torch_facts: Answer, jax: Answer) -> str:
    """Return what a package can do on this machine."""
    if package.distribution == "mujoco-warp":
        return package.role if num_gpus else f"{package.role}, of which there is none here"
    if package.distribution not in _ON_RANKS:
        return package.role
    if package.distribution == "jax" and jax.problem is not None:
        return f"{package.role}; its devices are not known: {jax.problem}"
    gpu = num_gpus > 0
    if package.distribution == "jax":
        gpu = gpu and jax.get("platform") in ("gpu", "cuda")
    reach = "all ranks" if torch_facts.get("gloo", True) else "one process"
    return f"{package.role}: {reach}; here on {'GPU or CPU' if gpu else 'CPU'}"


def _modules_by_group(installed: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return what to import, a process per group."""
    groups: dict[str, list[str]] = {}
    for package in PACKAGES:
        if package.module and installed[package.distribution] is not None:
            groups.setdefault(package.group, []).append(package.module)
    return groups


def _import_probe(group: str, modules: Sequence[str]) -> Probe:
    return Probe(name=f"imports_{group}", deadline_s=IMPORT_DEADLINE_S, arguments=modules)


def _note_all_loads(
    groups: Mapping[str, list[str]], answers: Mapping[str, Answer]
) -> dict[str, str | None]:
    """Return why each module does not load, null if it does.

    Where one ended its process, those behind it are tried in another.
    """
    loads: dict[str, str | None] = {}
    left = dict(groups)
    while left:
        left = {
            group: _note_loads(modules, answers[f"imports_{group}"], loads)
            for group, modules in left.items()
        }
        left = {group: modules for group, modules in left.items() if modules}
        answers = ask([_import_probe(group, modules) for group, modules in left.items()])
    return loads


def _note_loads(modules: Sequence[str], answer: Answer, loads: dict[str, str | None]) -> list[str]:
    """Note how each module went; return those still to be tried after one ended the process."""
    done = {fact["module"]: fact["problem"] for fact in answer.facts if "module" in fact}
    loads |= done
    left = [module for module in modules if module not in done]
    if left:
        loads[left[0]] = answer.problem or "the process ended"
    return left[1:]


def _mismatch(installed: Mapping[str, str | None], num_gpus: int) -> list[Finding]:
    """Name mujoco and mujoco_warp of different minor versions, which do not fit each other."""
    pair = [installed.get("mujoco"), installed.get("mujoco-warp")]
    minors = {".".join(version.split(".")[:2]) for version in pair if version is not None}
    if len(minors) < 2:
        return []
    return [
        Finding(
            section=SECTION,
            name="mujoco versions",
            text=f"mujoco is {pair[0]}, but mujoco-warp is {pair[1]}",
            state="problem" if num_gpus else "warning",
            advice="install both at the same minor version: " + _extra("warp"),
        )
    ]
