"""Appendix A.1 of the Reverb paper: a table of n-step transitions that are sampled uniformly, as of Acme's D4PG."""

import numpy as np

import gmi_drl.replay.reverb as reverb

N, MAX_REPLAY_SIZE, DISCOUNT = 3, 50, 0.99

table = reverb.Table(
    name="priority_table",
    sampler=reverb.selectors.Uniform(),
    remover=reverb.selectors.Fifo(),
    max_size=MAX_REPLAY_SIZE,
    rate_limiter=reverb.rate_limiters.MinSize(1),
)

with reverb.Server([table]) as server:
    client = server.localhost_client()
    with client.trajectory_writer(num_keep_alive_refs=N + 1) as writer:
        for time in range(100):
            writer.append({"observation": np.full(3, time, np.float32), "reward": float(time)})
            if time >= N:
                transition = {
                    "observation": writer.history["observation"][-N - 1],
                    "rewards": writer.history["reward"][-N:],
                    "next_observation": writer.history["observation"][-1],
                }
                writer.create_item(table="priority_table", priority=1.0, trajectory=transition)
    dataset = reverb.TrajectoryDataset(
        client.server_address,
        "priority_table",
        dtypes={"next_observation": np.float32, "observation": np.float32, "rewards": np.float64},
        shapes={"next_observation": (3,), "observation": (3,), "rewards": (N,)},
        max_in_flight_samples_per_worker=64,
    )
    batch = next(iter(dataset.batch(32)))
    returns = batch.data["rewards"].numpy() @ (DISCOUNT ** np.arange(N))
    assert ((batch.data["next_observation"] - batch.data["observation"]) == N).all()
    assert int(batch.data["observation"].min()) >= 100 - N - MAX_REPLAY_SIZE
    print(f"{table.info.current_size} transitions of {N} steps, {len(returns)} returns of a batch")
