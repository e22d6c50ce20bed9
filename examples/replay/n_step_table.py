"""The table of Acme's n-step agents (arXiv 2006.00979, section 3.2): items of n steps and the observation that follows.

Steps are stored once: items of neighbouring steps share them. Run it: `python examples/replay/n_step_table.py`.
"""

import torch

from gmi_drl.replay import Field, Fifo, MinSize, Prioritized, Signature, Stream, Table, make_storage

N_STEP, GAMMA = 3, 0.9
STEPS = 10

signature = Signature([Field("obs", (2,)), Field("action"), Field("reward")])
storage = make_storage(signature, 1000, longest=N_STEP + 1)
table = Table(
    "n-step", signature, sampler=Prioritized(0.6), remover=Fifo(), max_size=100, limiter=MinSize(1), storage=storage
)
stream = Stream(storage)

# Act: each step is appended; an item ends with the newest one
for step in range(STEPS):
    seen = {"obs": torch.full((1, 2), float(step)), "action": torch.zeros(1), "reward": torch.full((1,), float(step))}
    place = stream.append(seen)
    if stream.length == N_STEP + 1:
        table.insert(place - N_STEP, N_STEP + 1, priority=1.0)
stream.end_episode()

# Learn: n-step returns, and what follows them
batch = table.sample(64)
reward = batch.fields["reward"][:, :N_STEP]
returns = (reward * GAMMA ** torch.arange(N_STEP)).sum(1)
first, last = batch.fields["obs"][:, 0, 0], batch.fields["obs"][:, -1, 0]
assert torch.allclose(returns, first + GAMMA * (first + 1) + GAMMA**2 * (first + 2))
assert torch.equal(last, first + N_STEP)
table.update(batch.keys, (returns - returns.mean()).abs())
print(f"{table.size} items of {N_STEP} steps, from {STEPS} steps stored once")
