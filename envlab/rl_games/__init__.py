"""rl_games 1.6.5 on envlab: its PPO, continuous and discrete, on many ranks, and its SAC on one.

Gaps of rl_games 1.6.5 that this folder closes, and why:

- It hard-codes NCCL, ``cuda:LOCAL_RANK`` and the launcher's variables: agents are built as on one
  process, and learn of the others afterwards, from our context (``learner.py``).
- It averages gradients by hand, after a backward pass: the networks are wrapped in
  ``DistributedDataParallel`` instead (``--grad_sync library`` keeps its way, with the same result).
- Its normalisers see only one rank's data, so that ranks with equal parameters see the same state
  differently (``env.py``), and advantages are normalised by each rank's own moments
  (``ppo.py``): both are pooled.
- Ranks other than 0 have no learning rate schedule and get rank 0's value in float32, and with
  ``schedule_type: standard`` they restore an old one after each minibatch, so that ranks diverge:
  every rank keeps the schedule, and computes the same rate from the same averaged KL.
- A linear schedule over frames never moves, because it always gets 0, and frames are counted only
  on rank 0: schedules run over the run's iterations, and frames are counted on every rank.
- It bootstraps time limits from the state before the last step, and SAC stores that state: here it
  is the final observation in both (``ppo.py``, ``sac.py``).
- A resume begins with the configured learning rate, and loses the state of the central value
  network's schedule, and with SAC the temperature and the replay memory: checkpoints are ours and
  contain them all.
- Every rank makes directories, observers gather infos on ranks that never write them, rank 0 sees
  only its own episodes, stopping is up to rank 0, and SAC stops only after an episode has ended:
  the library's own loops are not used.
- Its schedule reads the divergence on the host: on a GPU, minibatches are graphs, and the rate is a
  tensor (``recorded_update.py``).
- Its Runner sets threads, TF32 and seeds, with its own offsets: it is not used.
"""
