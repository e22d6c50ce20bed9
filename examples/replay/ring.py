"""A ring of environments that step together: n-step returns without naming any item.

Run it: `python examples/replay/ring.py`.
"""

import torch

from gmi_drl.replay import Field, Prioritized, Ring, Signature

NUM_ENV, STEPS, LIMIT = 4, 50, 7

signature = Signature(
    [Field("obs", (1,)), Field("action"), Field("reward"), Field("terminated", dtype=torch.bool)],
)
ring = Ring(signature, NUM_ENV, STEPS, n_step=3, gamma=0.9, sampler=Prioritized(0.6))

# Act: environment i counts from i; every episode ends after LIMIT steps
count = torch.arange(NUM_ENV)
for _ in range(2 * STEPS):  # twice around
    obs = count.float()
    count = count + 1
    ended = count % LIMIT == 0
    step = {"obs": obs[:, None], "action": torch.zeros(NUM_ENV), "reward": torch.ones(NUM_ENV), "terminated": ended}
    ring.add(step, boundary=ended, valid=torch.ones(NUM_ENV, dtype=torch.bool))
    count = torch.where(ended, 0, count)

# Learn: windows stop at the end of an episode
batch = ring.sample(64)
left = (LIMIT - batch.fields["obs"][:, 0]).clamp(max=3)
assert torch.allclose(batch.fields["reward"], (1 - 0.9**left) / (1 - 0.9))
assert torch.equal(batch.fields["discount"] == 0, batch.fields["obs"][:, 0] >= LIMIT - 3)
ring.update(batch.keys, torch.rand(64))
print(f"{ring.windows} windows of up to 3 steps in {ring.total} steps")
