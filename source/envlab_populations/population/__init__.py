"""Populations: the loop of generations, and population-based training of any library's learner.

Members train for some iterations, are compared, and give way to copies of the fitter
(:mod:`.generations`); a strategy chooses who to whom (:mod:`.strategy`), and :mod:`.lineage` tells
who came from whom. :mod:`envlab_populations.evolution` has another kind of members.

Population-based training is that of Jaderberg et al. (2017, arXiv:1711.09846).
``--population_size`` trains several members together. Each is like a run of the train script on one
process, with its own environments, generators and hyper-parameters. Every few iterations they meet
(:mod:`.learner`): the least fit copy the fittest (exploit) and change the copied numbers (explore,
:mod:`.exploration`). A copy is loaded as in a resume (:mod:`.member`), into a learner that was
rebuilt with the copy's own hyper-parameters, so that any number of ``agent.*`` has the same effect
as on the command line. Pitfalls that this avoids, and that are tested:

- ``Optimizer.load_state_dict`` (torch 2.13) keeps the donor's tensors: two members of one process
  would step the same moments.
- rsl_rl 5.5.1's normaliser reduces over the default process group whenever there is one.
- Loading brings the donor's learning rate with its optimizer; an adaptive schedule rewrites it.
"""
