"""Populations: learners of any library that are compared, and give way to copies of the fitter.

To read in this order: a strategy chooses who gives way to whom (:mod:`.strategy`); a member is a
learner with its descent, and a nursery makes its learners (:mod:`.member`); the loop of generations
is the same for all (:mod:`.generations`), and :mod:`.lineage` tells who came from whom.

Two kinds of population fill the loop in. Population-based training (:mod:`.learner`; Jaderberg et
al. 2017, arXiv:1711.09846), by ``--population_size``, trains learners of any library, each like a
run of the train script on one process, in a seat of its own (:mod:`.seat`); copies explore numbers
(:mod:`.ranges`). :mod:`envlab_populations.evolution` trains skrl's agents in shared environments,
whose networks mutate (:mod:`.architecture`). Pitfalls that this avoids, and that are tested:

- ``Optimizer.load_state_dict`` (torch 2.13) keeps the donor's tensors: two members of one process
  would step the same moments.
- rsl_rl 5.5.1's normaliser reduces over the default process group whenever there is one.
- Loading brings the donor's learning rate with its optimizer; an adaptive schedule rewrites it.
"""
