"""skrl 2.1.1, on PyTorch and on JAX.

:mod:`main` is what the table of libraries names. What both frameworks share lies here; :mod:`torch`
and :mod:`jax` have the rest, and say which gaps of skrl each of them closes. Gaps on both:

- skrl joins a process group of its own while it is imported: :func:`library.load_skrl` imports it
  without its knowing of other processes.
- Its trainer resets the environments first, counts timesteps from 0 after a resume, and hands
  agents the observation after a reset as the one that ended an episode, so that target values and
  time limits bootstrap from the wrong state: :mod:`learner` and :mod:`env` stand in for it.
- Its tracking data grows for ever where nothing is written, and each rank writes to Weights &
  Biases: its own files are off, and :class:`learner.SkrlLearner` drops the data.
- It normalises advantages with each rank's own mean and deviation, in a function that an agent's
  ``update`` takes from its module, between lines that cannot be replaced apart from the whole
  update. :func:`agents.agent_class` gives a subclass that takes another function.
- ``kl_threshold`` leaves the loop over mini-batches on one rank alone, which hangs the others: it
  is refused on several processes (:mod:`checks`).
- Its checkpoints are pickles, which a resume would load without counters, learning rates, replay
  memory, exploration noise and generators, at timestep 0: checkpoints are ours.
- Its runner evaluates strings of the configuration as Python and adds the rank to the seed. Without
  it, names are looked up and formulas calculated (:mod:`settings`).
- IPPO and MAPPO refuse the empty arguments of a scheduler, and lose those of preprocessors:
  :func:`agents.make_agent` gives them by agent.
"""
