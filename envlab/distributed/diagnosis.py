"""Which rank is to blame when a job is stuck: a pure function of one rank's view of all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, replace

from envlab.distributed.heartbeat import Sighting
from envlab.distributed.progress import PHASES
from envlab.distributed.timeouts import HICCUP_S, LOST_AFTER_S, STARTUP_TIMEOUT_S

STOPPED = "is stopped (by SIGSTOP)"


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Why the job cannot continue."""

    kind: str
    """``gone`` (a process has ended) or ``failed`` (a rank raised an error), which both break the
    peers' collectives; ``lost`` (no longer answers), or ``stalled``."""
    guilty: dict[int, str]
    """The reason by rank: the rest of a sentence that begins with the rank's name."""
    about: str = ""
    """The whole sentence, if it is about no rank."""

    @property
    def breaks_collectives(self) -> bool:
        """Whether the other ranks' main threads will notice by themselves."""
        return self.kind in ("gone", "failed")

    def to_json(self) -> str:
        """Return it as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Diagnosis:
        """Return the diagnosis in the text of :meth:`to_json`."""
        values = json.loads(text)
        guilty = {int(rank): why for rank, why in values.pop("guilty").items()}
        return cls(guilty=guilty, **values)

    def sentence(self, sightings: Mapping[int, Sighting]) -> str:
        """Return one sentence on each guilty rank."""
        parts = [self.about] if self.about else []
        for rank, why in self.guilty.items():
            seen = sightings[rank]
            is_mute = self.kind in ("gone", "lost") or seen.silent_s > HICCUP_S
            when = f", last seen {seen.silent_s:.0f} s ago" if is_mute else ""
            parts.append(f"{seen.heartbeat.name} {why}{when} in {seen.heartbeat.place}.")
        return " ".join(parts)


def diagnose(
    sightings: Mapping[int, Sighting],
    own_rank: int,
    *,
    timeout_s: float,
    startup_timeout_s: float = STARTUP_TIMEOUT_S,
    warm_for_s: float = float("inf"),
    store: str = "",
    store_silent_s: float = 0.0,
) -> Diagnosis | None:
    """Return why the job cannot continue, or None while it can.

    A rank that waits in a collective is innocent while another rank makes progress. So is a rank
    ahead of one that makes progress, because on a GPU the host waits outside collectives.

    Args:
        sightings: How ``own_rank`` sees all ranks, itself included.
        own_rank: The observing rank.
        timeout_s: How long a rank may make no progress once all have done an update.
        startup_timeout_s: The same before that, if it is longer.
        warm_for_s: Seconds since the first update is known to be done. Under the shorter timeout, a
            rank last heard before it counts as idle for at most this long.
        store: Address of the store.
        store_silent_s: Seconds since the store last answered.
    """
    is_warm = any(seen.heartbeat.is_warm for seen in sightings.values())  # iterations are in step
    if is_warm:
        sightings = {rank: _since_warm(seen, warm_for_s) for rank, seen in sightings.items()}
    own = sightings[own_rank]
    limit = timeout_s if is_warm else max(startup_timeout_s, timeout_s)
    patience = min(LOST_AFTER_S, timeout_s) if is_warm else limit
    active = {rank: seen for rank, seen in sightings.items() if seen.heartbeat.phase != "close"}
    has_peers = len(sightings) > 1
    waiting = {
        rank
        for rank, seen in active.items()
        if has_peers and seen.heartbeat.waits and seen.silent_s <= HICCUP_S  # else outdated
    }
    return (
        _gone(active)
        or _failed(sightings)
        or _unreachable(active, own, patience, store, store_silent_s)
        or _stalled(active, waiting, limit)
        or _waiting_in_vain(sightings, active, waiting, limit)
        or _cannot_leave(own, limit)
    )


def _since_warm(seen: Sighting, warm_for_s: float) -> Sighting:
    """Return a sighting without the time to which the longer timeout applied."""
    if seen.heartbeat.is_warm:
        return seen
    silent_s = min(seen.silent_s, warm_for_s)
    heartbeat = replace(seen.heartbeat, idle_s=min(seen.heartbeat.idle_s, warm_for_s - silent_s))
    return replace(seen, heartbeat=heartbeat, silent_s=silent_s)


def _gone(active: Mapping[int, Sighting]) -> Diagnosis | None:
    why = (
        "died (killed, or crashed in native code, as gloo does where ranks make different "
        "collectives; see its output and the system's log)"
    )
    guilty = {
        rank: why
        for rank, seen in active.items()
        if seen.process == "gone" and not seen.heartbeat.failure
    }
    return Diagnosis(kind="gone", guilty=guilty) if guilty else None


def _failed(sightings: Mapping[int, Sighting]) -> Diagnosis | None:
    guilty = {
        rank: f"failed ({seen.heartbeat.failure})"
        for rank, seen in sightings.items()
        if seen.heartbeat.failure
    }
    return Diagnosis(kind="failed", guilty=guilty) if guilty else None


def _unreachable(
    active: Mapping[int, Sighting],
    own: Sighting,
    patience: float,
    store: str,
    store_silent_s: float,
) -> Diagnosis | None:
    """Name stopped processes, and machines that do not answer while this rank is stuck.

    A store that does not answer is no evidence about the ranks whose heartbeats it would bring.
    """
    is_blind = store_silent_s > HICCUP_S
    is_active = own.heartbeat.phase == "close" or own.idle_s <= patience
    guilty = {}
    for rank, seen in active.items():
        if rank == own.heartbeat.rank or seen.silent_s <= patience:
            continue
        if seen.process == "stopped":
            guilty[rank] = STOPPED
        elif seen.process == "elsewhere" and not is_blind and not is_active:
            guilty[rank] = "does not answer (its machine, or the network to it, is down)"
    if guilty:
        return Diagnosis(kind="lost", guilty=guilty)
    if store_silent_s <= patience or is_active:
        return None
    about = (
        f"The launcher's store at {store} has not answered for {store_silent_s:.0f} s: its "
        "machine, the network to it, or the launcher on it is down."
    )
    return Diagnosis(kind="lost", guilty={}, about=about)


def _stalled(active: Mapping[int, Sighting], waiting: Set[int], limit: float) -> Diagnosis | None:
    """Name the ranks furthest behind among those that stand still outside collectives."""
    busy = [_position(seen) for seen in active.values() if seen.idle_s < limit / 2]
    idle = {
        rank: seen
        for rank, seen in active.items()
        if seen.idle_s >= limit / 2 and rank not in waiting
    }
    over = [
        seen
        for seen in idle.values()
        if seen.idle_s >= limit and not any(position < _position(seen) for position in busy)
    ]
    if not over:
        return None
    behind = min(_position(seen) for seen in idle.values())
    guilty = {rank: _idleness(seen) for rank, seen in idle.items() if _position(seen) == behind}
    return Diagnosis(kind="stalled", guilty=guilty)


def _idleness(seen: Sighting) -> str:
    if seen.process == "stopped":
        return STOPPED
    text = f"has made no progress for {seen.idle_s:.0f} s"
    is_mute = seen.process == "running" and seen.silent_s > HICCUP_S
    return f"{text}, and native code holds its interpreter" if is_mute else text


def _waiting_in_vain(
    sightings: Mapping[int, Sighting],
    active: Mapping[int, Sighting],
    waiting: Set[int],
    limit: float,
) -> Diagnosis | None:
    """When all ranks wait, name those that have left, or wait in another collective than most."""
    if not active or waiting != active.keys():
        return None
    if any(seen.idle_s < limit for seen in active.values()):
        return None
    if left := sightings.keys() - active.keys():
        why = "has exited, while others wait for it"
        return Diagnosis(kind="stalled", guilty=dict.fromkeys(sorted(left), why))
    places: dict[tuple[object, ...], list[int]] = {}
    for rank, seen in active.items():
        places.setdefault((seen.heartbeat.waits, *_position(seen)), []).append(rank)
    if len(places) == 1:
        why = "waits in a collective that does not end, as all ranks do (the network?)"
        return Diagnosis(kind="stalled", guilty=dict.fromkeys(active, why))
    # The majority is right; in a tie, the ranks behind, as the others went past a collective.
    usual = min(places.values(), key=lambda ranks: (-len(ranks), _position(active[ranks[0]])))
    why = "has skipped a collective, or makes one too many: unlike the others, it waits"
    guilty = {rank: why for rank in active if rank not in usual}
    return Diagnosis(kind="stalled", guilty=guilty)


def _cannot_leave(own: Sighting, limit: float) -> Diagnosis | None:
    if own.heartbeat.phase != "close" or own.idle_s < limit:
        return None
    return Diagnosis(kind="stalled", guilty={own.heartbeat.rank: _idleness(own)})


def _position(seen: Sighting) -> tuple[int, int, int]:
    """Return a rank's position; ranks in step make the same collectives in the same order."""
    heartbeat = seen.heartbeat
    phase = PHASES.index(heartbeat.within) if heartbeat.within in PHASES else 0
    return heartbeat.iteration, phase, heartbeat.collectives
