"""Section 4 of the Reverb paper: trajectories that overlap, of two lengths, in two tables. No step is sent twice."""

import numpy as np

import gmi_drl.replay.reverb as reverb

rng = np.random.default_rng(0)
tables = [
    reverb.Table(
        name=name,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=1000,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )
    for name in ("my_table_a", "my_table_b")
]


def env_step(step: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """An observation that says the time, an action, and whether the episode ends."""
    return np.full(4, step, np.float32), rng.random(2, np.float32), step == 20


with reverb.Server(tables) as server:
    client = server.localhost_client()
    with client.writer(max_sequence_length=3) as writer:
        step, done = 0, False
        while not done:
            observation, action, done = env_step(step)
            writer.append((observation, action))
            if step >= 1:
                writer.create_item(table="my_table_a", num_timesteps=2, priority=1.5)
            if step >= 2:
                writer.create_item(table="my_table_b", num_timesteps=3, priority=1.5)
            step += 1
    for name, length in (("my_table_a", 2), ("my_table_b", 3)):
        for timesteps in client.sample(name, 10):
            times = [int(timestep.data[0][0]) for timestep in timesteps]
            assert times == list(range(times[0], times[0] + length))
    sizes = {name: info.current_size for name, info in client.server_info().items()}
    print(f"{sizes['my_table_a']} items of 2 steps, {sizes['my_table_b']} of 3, from {step} steps")
