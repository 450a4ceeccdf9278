"""Ranks: which one runs where, what they must agree on, and what happens when one of them fails.

Begin with :mod:`envlab.distributed.context`: :class:`DistributedContext` is a process's place in
the job, by which every other room sums, gathers and broadcasts.

- The launch: ``ranks`` reads what a launcher set, ``torchrun`` starts local ranks, ``rendezvous``
  and ``network`` bring nodes together, ``limits`` counts cores and memory.
- Learning as one: ``ddp`` wraps the policy, ``gathering`` moves large values, ``statistics`` pools
  moments, ``seeding`` has the rule of seeds, ``audit`` compares values and names who differs.
- Failure: ``progress`` notes what a process does, ``heartbeat`` and ``exchange`` tell the others,
  ``watchdog`` ends a stuck job, ``diagnosis`` finds whose fault it is, ``interrupt`` answers
  signals.
- Files that survive: ``checkpoint`` and ``disk``.
"""
