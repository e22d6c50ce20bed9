"""Appendix A.2 of the Reverb paper: distributed SAC, as of TF-Agents: two actors, a learner, and a replay server.

One table has the newest parameters (VARIABLE_CONTAINER), which the actors sample; the other one the experience, at a
fixed ratio of samples to inserts. The task: go to 0 on a line. Run it: `python examples/distributed_sac/main.py`.
"""

import argparse
import multiprocessing
import socket
import sys
from pathlib import Path

import numpy as np
import torch

import gmi_drl.replay.reverb as reverb

sys.path.insert(0, str(Path(__file__).parent))
from networks import Learner, Policy

EXPERIENCE, VARIABLES = "uniform_table", "VARIABLE_CONTAINER"
BATCH, MIN_SIZE, SAMPLES_PER_INSERT, TOLERANCE_RATIO = 64, 128, 32.0, 0.5
EPISODE_STEPS, EVERY = 10, 5


def tables() -> list[reverb.Table]:
    """Those of the paper."""
    signature = {
        "action": reverb.TensorSpec((1,), np.float32),
        "next_observation": reverb.TensorSpec((1,), np.float32),
        "observation": reverb.TensorSpec((1,), np.float32),
        "reward": reverb.TensorSpec((), np.float32),
    }
    container = reverb.Table(
        name=VARIABLES,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        rate_limiter=reverb.rate_limiters.MinSize(1),
        max_size=1,
        max_times_sampled=0,
    )
    experience = reverb.Table(
        name=EXPERIENCE,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        rate_limiter=reverb.rate_limiters.SampleToInsertRatio(
            min_size_to_sample=MIN_SIZE,
            samples_per_insert=SAMPLES_PER_INSERT,
            error_buffer=MIN_SIZE * TOLERANCE_RATIO * SAMPLES_PER_INSERT,
        ),
        max_size=10_000,
        max_times_sampled=0,
        signature=signature,
    )
    return [container, experience]


def serve(port: int) -> None:
    """Serve the tables, until this process is ended."""
    torch.set_num_threads(1)
    reverb.Server(tables(), port).wait()


def moved(position: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """The next position."""
    return (position + 0.3 * action).clamp(-1, 1)


def act(address: str, seed: int) -> None:
    """Play with the newest parameters, until this process is ended."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    client, policy = reverb.Client(address), Policy(1, 1)
    with client.trajectory_writer(num_keep_alive_refs=2) as writer:
        while True:
            newest = next(client.sample(VARIABLES, emit_timesteps=False))
            policy.load_variables([column[0] for column in newest.data])
            position = torch.rand(1) * 2 - 1
            for step in range(EPISODE_STEPS):
                with torch.no_grad():
                    action, _ = policy(position)
                after = moved(position, action)
                writer.append({"observation": position, "action": action, "reward": -after.abs()[0]})
                if step:
                    add_transition(writer)
                position = after
            writer.append({"observation": position, "action": torch.zeros(1), "reward": torch.zeros(())})
            add_transition(writer)
            writer.end_episode()


def add_transition(writer: reverb.TrajectoryWriter) -> None:
    """The last step but one, and what followed."""
    history = writer.history
    transition = {name: history[name][-2] for name in ("observation", "action", "reward")}
    writer.create_item(EXPERIENCE, 1.0, transition | {"next_observation": history["observation"][-1]})


def learn(address: str, updates: int) -> tuple[float, float]:
    """Learn from what the actors play. Returns the mean distance from 0 at the end of episodes, before and after."""
    torch.manual_seed(0)
    client, learner = reverb.Client(address), Learner(1, 1)
    before = distance(learner.policy)
    client.insert(learner.policy.variables(), {VARIABLES: 1.0})
    dataset = reverb.TrajectoryDataset.from_table_signature(address, EXPERIENCE, BATCH, max_samples=BATCH * updates)
    for update, batch in enumerate(dataset.batch(BATCH), 1):
        data = batch.data
        learner.update(data["observation"], data["action"], data["reward"], data["next_observation"])
        if update % EVERY == 0:
            client.insert(learner.policy.variables(), {VARIABLES: 1.0})
    return before, distance(learner.policy)


def distance(policy: Policy) -> float:
    """The mean distance from 0 after an episode without noise."""
    position = torch.linspace(-1, 1, 21)[:, None]
    for _ in range(EPISODE_STEPS):
        position = moved(position, policy.best(position).detach())
    return float(position.abs().mean())


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def main() -> None:
    """Start the server and the actors, which wait for it, then learn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--updates", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)
    port, context = free_port(), multiprocessing.get_context("fork")
    address = f"localhost:{port}"
    processes = [context.Process(target=serve, args=(port,), daemon=True)]
    processes += [context.Process(target=act, args=(address, seed), daemon=True) for seed in range(options.actors)]
    for process in processes:
        process.start()
    before, after = learn(address, options.updates)
    told = reverb.Client(address).server_info()[EXPERIENCE]
    stats = told.rate_limiter_info
    for process in reversed(processes):
        process.terminate()
        process.join()
    samples, inserts = stats.sample_stats.completed, stats.insert_stats.completed
    assert samples == BATCH * options.updates
    print(f"{options.actors} actors, {told.num_deleted_episodes + told.num_episodes} episodes, {inserts} transitions")
    print(f"{samples / inserts:.1f} samples of each; distance from 0 after an episode: {before:.3f}, then {after:.3f}")


if __name__ == "__main__":
    main()
