"""skrl 2.1.1, on PyTorch and on JAX.

The table of libraries names :mod:`main`. Code for both frameworks is here; :mod:`torch` and
:mod:`jax` have the rest, and list the gaps of skrl that each of them closes. Gaps on both:

- skrl joins a separate process group when imported: :func:`library.load_skrl` hides the other
  processes from it.
- Its trainer resets the environments first, counts timesteps from 0 after a resume, and hands
  agents the observation after a reset as the one that ended an episode, so that target values and
  time limits bootstrap from the wrong state: :mod:`learner` and :mod:`env` replace it.
- Its tracking data grows forever if it is not written, and each rank writes to Weights & Biases:
  its own files are off, and :class:`learner.SkrlLearner` drops the data.
- It normalises advantages with each rank's own mean and deviation, in a function that an agent's
  ``update`` takes from its module, in the middle of code that can only be replaced as a whole.
  :func:`agents.agent_class` returns a subclass that takes another function.
- ``kl_threshold`` may end the loop over mini-batches on a single rank, which hangs the others: it
  is refused on several processes (:mod:`checks`).
- Its checkpoints are pickles, and a resume would start at timestep 0 without counters, learning
  rates, replay memory, exploration noise and generators: checkpoints are ours.
- Its runner evaluates strings of the configuration as Python and adds the rank to the seed. Here,
  names are looked up and formulas calculated instead (:mod:`agents`).
- IPPO and MAPPO refuse the empty arguments of a scheduler, and lose those of preprocessors:
  :func:`agents.make_agent` passes them by agent.
"""
