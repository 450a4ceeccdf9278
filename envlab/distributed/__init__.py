"""Which rank runs where, and what ranks must agree on; see :mod:`envlab.distributed.context`."""
