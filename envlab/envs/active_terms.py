"""Tables of what a task's managers do, for people to read at the start of a training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from envlab.envs.managers.function_term import FunctionTermCfg
from envlab.envs.managers.term import TermCfg, terms_of

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv


def active_terms(env: ManagerEnv) -> str:
    """Return a table for each manager: terms in their order, with sizes, weights and modes."""
    cfg, observed = env.cfg, env.observation_manager
    tables = []
    for group in observed.active_terms:
        seen = env.obs_buf[group]
        what = "a dictionary" if isinstance(seen, dict) else tuple(seen.shape[1:])
        title = f"Observations of the group {group!r}, {what}"
        tables.append(_table(title, "Shape", observed.shapes(group)))
    acts, commands = env.action_manager, env.command_manager
    sizes = {name: (acts.get_term(name).dim,) for name in acts.active_terms}
    tables.append(_table(f"Actions, ({acts.total_action_dim},)", "Shape", sizes))
    kinds = {name: type(commands.get_term(name)).__name__ for name in commands.active_terms}
    tables.append(_table("Commands", "Type", kinds))
    for title, part, head, attribute in (
        ("Rewards", cfg.rewards, "Weight", "weight"),
        ("Terminations", cfg.terminations, "Time out", "time_out"),
        ("Events", cfg.events, "Mode", "mode"),
    ):
        terms = terms_of(part, TermCfg)
        facts = {name: getattr(term, attribute) for name, term in terms.items()}
        tables.append(_table(title, head, facts))
    for title, part in (("Curricula", cfg.curriculum), ("Metrics", cfg.metrics)):
        calls = terms_of(part, FunctionTermCfg)
        functions = {name: _name_of(term.func) for name, term in calls.items()}
        tables.append(_table(title, "Function", functions))
    return "\n\n".join(filter(None, tables))


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _table(title: str, head: str, facts: dict[str, Any]) -> str:
    rows = [(index, name, fact) for index, (name, fact) in enumerate(facts.items())]
    body = tabulate(rows, ("", "Term", head), disable_numparse=True, colalign=("right",))
    return f"{title}\n{body}" if rows else ""
