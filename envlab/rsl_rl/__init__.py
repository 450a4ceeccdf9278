"""rsl_rl 5.5.1 on envlab.

Its PPO, distillation, networks and storage are used unchanged; its runners, logger and checkpoints
are not used. Gaps of rsl_rl 5.5.1 that this folder closes:

- Its runner hard-codes NCCL and requires ``cuda:LOCAL_RANK``, its logger sees only rank 0's
  environments, and it resumes at the iteration that it had finished, with counters and generators
  lost: loop, metrics and checkpoints are envlab's (:mod:`envlab.training`).
- It averages gradients by hand after the backward pass; the policy is wrapped in
  ``DistributedDataParallel`` instead (``--grad_sync library`` keeps its own way, with the same
  result).
- It normalises advantages, of a rollout or of each minibatch, with each rank's own mean and
  deviation: they are pooled here.
- It bootstraps time limits from the state before the last step: here from the final observation.
- Its distillation loses the memory of a recurrent teacher with each update.
- It expects images as channels, height, width; and steps shared encoders of actor and critic twice.
"""
