"""Physics behind one contract; see :mod:`envlab.sim.simulation`."""
