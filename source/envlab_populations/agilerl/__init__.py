"""AgileRL's interface over envlab's populations, for its demos and tutorials.

An agent is a :class:`envlab_populations.population.member.Member` that acts and learns when a
program asks (:mod:`.agent`), so that weights, moments and genes are inherited as everywhere in
envlab. The program keeps its own loop, environments (:mod:`.environments`) and replay memory
(:mod:`.memory`), or calls one of the loops of :mod:`.training`. :mod:`.names` lists the names of
AgileRL that exist here, and why others do not; ``python -m envlab_populations.agilerl SCRIPT`` runs
a program in which ``import agilerl`` finds them.

Names and meanings are those of AgileRL 2.9.1, and of 0.1.13 where a name has changed.
"""
