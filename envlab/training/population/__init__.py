"""Population-based training of any library's learner (Jaderberg et al. 2017, arXiv:1711.09846).

``--population_size`` trains several members at once. Each is what the train script would be on one
process, with environments, generators and hyper-parameters of its own. Every so many iterations
they meet (:mod:`.learner`): the least fit copy the fittest (exploit) and change what they copied
(explore, :mod:`.exploration`). A copy is loaded as a resume would load it (:mod:`.member`), into a
learner that was built anew with the copy's own hyper-parameters, so that any number of ``agent.*``
has the effect that it has on the command line. What would go wrong otherwise, and is tested:

- ``Optimizer.load_state_dict`` (torch 2.13) keeps the donor's tensors: two members of one process
  would step the same moments.
- rsl_rl 5.5.1's normaliser reduces over the default process group whenever there is one.
- Loading brings the donor's learning rate with its optimizer; an adaptive schedule rewrites it.
"""
