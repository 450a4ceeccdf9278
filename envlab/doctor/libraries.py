"""Installed libraries: whether they load, and their abilities on this machine."""

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
from envlab.doctor.report import Finding, State
from envlab.libraries import libraries

IMPORT_DEADLINE_S = 120.0
"""All of torch's libraries load in 6 s on two idle cores; a busy machine takes many times that."""


@dataclass(frozen=True)
class Package:
    """A package that envlab uses."""

    distribution: str
    """Its name at the package index."""
    role: str
    """Its purpose here."""
    module: str = ""
    """Module to import as a test; empty: none."""
    group: str = ""
    """Packages of a group are loaded by one process, as they share slow dependencies."""
    extra: str = ""
    """How to install an optional package: its extra in pyproject.toml, or a command."""

    @property
    def install(self) -> str:
        """Return the command that installs it."""
        if " " in self.extra:
            return self.extra
        what = f"'.[{self.extra}]'" if self.extra else "."
        return f"pip install -c constraints.txt -e {what}"


def packages() -> list[Package]:
    """Return envlab's requirements, the packages of its libraries, and optional packages."""
    return [
        Package("torch", "learning", "torch", "torch"),
        Package("mujoco", "physics on CPU", "mujoco.batch", "mujoco"),
        Package("mujoco-warp", "physics on GPU", "mujoco_warp", "mujoco", "warp"),
        Package("gymnasium", "environments"),
        Package("hydra-core", "configuration"),
        Package("numpy", "arrays"),
        *(
            Package(distribution, ", ".join(users), module, "torch" if module else "")
            for (distribution, module), users in _trained_with().items()
        ),
        Package("jax", "skrl on JAX", "jax", "jax", "jax"),
        Package("flax", "skrl on JAX", "flax", "jax", "jax"),
        Package("onnxruntime", "export by play", extra="export"),
        Package("av", "--video", extra="video"),
        Package("matplotlib", "compare", extra="compare"),
        Package("wandb", "--logger wandb", extra="pip install wandb"),
        Package("mlflow-skinny", "--logger mlflow", extra="pip install mlflow"),
        Package("trackio", "--logger trackio", extra="pip install trackio"),
        Package("huggingface_hub", "hf:OWNER/NAME, push", extra="pip install huggingface_hub"),
    ]


def _trained_with() -> dict[tuple[str, str], list[str]]:
    """Return the libraries that train with a package, by its name and the module to import."""
    users: dict[tuple[str, str], list[str]] = {}
    for library in libraries().values():
        for package in library.packages.items():
            users.setdefault(package, []).append(library.name)
    return users


def versions() -> dict[str, str | None]:
    """Return the installed versions of Python, envlab and all packages, None for absent ones."""
    found: dict[str, str | None] = {
        "python": platform.python_version(),
        "envlab": __version__,
    }
    for package in packages():
        try:
            found[package.distribution] = importlib.metadata.version(package.distribution)
        except importlib.metadata.PackageNotFoundError:
            found[package.distribution] = None
    return found


def supported_versions() -> dict[str, Requirement]:
    """Return the requirements in envlab's metadata, by package; empty if it is not installed."""
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
    """Examine every package.

    Args:
        answers: Answers of :func:`library_probes` and of the torch probe (for GPUs).
    """
    installed, supported = versions(), supported_versions()
    loads = _note_all_loads(_modules_by_group(installed), answers)
    torch, jax = answers["torch"], answers.get("jax", Answer())
    num_gpus = len(torch.get("gpus", []))
    findings = [Finding("python", f"{platform.python_version()}, {sys.executable}")]
    findings.append(_envlab(is_installed=bool(supported)))
    for package in packages():
        name = package.distribution
        ability, problem = _ability(package, num_gpus, torch, jax), loads.get(package.module)
        wanted = supported[name].specifier if name in supported else SpecifierSet()
        findings.append(finding_of_package(package, installed[name], wanted, problem, ability))
    findings += _mismatch(installed, num_gpus)
    return findings, {"versions": installed, "loads": loads, "jax": jax.facts}


def finding_of_package(
    package: Package, version: str | None, wanted: SpecifierSet, problem: str | None, ability: str
) -> Finding:
    """Return the line of a package.

    Args:
        package: The package.
        version: Its version, None if it is absent.
        wanted: envlab's requirement.
        problem: Why it does not load; None if it does, or is not loaded.
        ability: Its abilities on this machine.
    """
    name, install = package.distribution, package.install
    if version is None and package.extra:
        return Finding(name, f"not installed; only for {package.role} ({install})", "note")
    if version is None:
        return Finding(name, "not installed", "problem", f"install it: {install}")
    bad: State = "warning" if package.extra else "problem"
    if problem is not None:
        advice = f"reinstall it at the version envlab is tested with: {install}"
        return Finding(name, f"{version} does not load: {problem}", bad, advice)
    if not wanted.contains(version, prereleases=True):
        text = f"{version}, but envlab supports {_range(wanted)}"
        return Finding(name, text, bad, f"install the supported version: {install}")
    range_text = f" (supported: {_range(wanted)})" if wanted else ""
    return Finding(name, f"{version}{range_text}; {ability}")


def _range(specifiers: SpecifierSet) -> str:
    """Return a range with its lower end first."""
    return ",".join(sorted(map(str, specifiers), reverse=True))


def _envlab(*, is_installed: bool) -> Finding:
    if is_installed:
        return Finding("envlab", __version__)
    text = f"{__version__}, not installed: its supported versions are unknown"
    return Finding("envlab", text, "warning", "install it: pip install -c constraints.txt -e .")


def _ability(package: Package, num_gpus: int, torch_facts: Answer, jax: Answer) -> str:
    """Return what a package can do on this machine."""
    if package.distribution == "mujoco-warp":
        return package.role if num_gpus else f"{package.role}, of which there is none here"
    if package.group not in ("torch", "jax"):  # libraries for training can use several processes
        return package.role
    if package.group == "jax" and jax.problem is not None:
        return f"{package.role}; its devices are not known: {jax.problem}"
    gpu = num_gpus > 0
    if package.group == "jax":
        gpu = gpu and jax.get("platform") in ("gpu", "cuda")
    reach = "all ranks" if torch_facts.get("gloo", True) else "one process"
    return f"{package.role}: {reach}; here on {'GPU or CPU' if gpu else 'CPU'}"


def _modules_by_group(installed: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return the modules to import, by group; each group has a process."""
    groups: dict[str, list[str]] = {}
    for package in packages():
        if package.module and installed[package.distribution] is not None:
            groups.setdefault(package.group, []).append(package.module)
    return groups


def _import_probe(group: str, modules: Sequence[str]) -> Probe:
    return Probe(name=f"imports_{group}", deadline_s=IMPORT_DEADLINE_S, arguments=modules)


def _note_all_loads(
    groups: Mapping[str, list[str]], answers: Mapping[str, Answer]
) -> dict[str, str | None]:
    """Return why each module does not load, None if it does.

    If a module ends the process, the modules after it are loaded in another.
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
    """Note the result of each module; return those left to try after one ended the process."""
    done = {fact["module"]: fact["problem"] for fact in answer.facts if "module" in fact}
    loads |= done
    left = [module for module in modules if module not in done]
    if left:
        loads[left[0]] = answer.problem or "the process ended"
    return left[1:]


def _mismatch(installed: Mapping[str, str | None], num_gpus: int) -> list[Finding]:
    """Report mujoco and mujoco_warp of different minor versions, which do not work together."""
    pair = [installed.get("mujoco"), installed.get("mujoco-warp")]
    minors = {".".join(version.split(".")[:2]) for version in pair if version is not None}
    if len(minors) < 2:
        return []
    text = f"mujoco is {pair[0]}, but mujoco-warp is {pair[1]}"
    advice = "install both at the same minor version: pip install -c constraints.txt -e '.[warp]'"
    return [Finding("mujoco versions", text, "problem" if num_gpus else "warning", advice)]
