"""MAT on the four legs of Ant: actors commit trajectories to their shards, the learner takes the oldest.

    python examples/mat/main.py --seconds 300
    torchrun --nproc-per-node 2 examples/mat/main.py --seconds 300

Each rank plays its worlds for a trajectory and writes it into its own shard. All select the oldest trajectories, each
collects its part, and learns from it `epochs` times; DDP averages the gradients. Then they are evicted.
"""

import argparse
import os
import time
from collections.abc import Generator

import torch
import torch.distributed
from legs import ACTION, LEGS, OBSERVATION, Legs
from network import Transformer
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from gmi_drl.replay import Field, Signature
from gmi_drl.replay.shards import Fifo, Shards, open_shards_of_torch

DISCOUNT, DECAY, CLIP, LARGEST_NORM = 0.99, 0.95, 0.2, 0.5
TOLD_EVERY = 10
"""Iterations."""

SIGNATURE = Signature(
    [
        Field("obs", (LEGS, OBSERVATION)),
        Field("action", (LEGS, ACTION)),
        *(Field(name, (LEGS,)) for name in ("log_prob", "advantage", "value_target")),
    ]
)


def main() -> None:
    """Train for a while; rank 0 tells the returns."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--worlds", type=int, default=64, help="of each rank")
    parser.add_argument("--steps", type=int, default=32, help="of a trajectory")
    parser.add_argument("--epochs", type=int, default=5, help="how often a trajectory is learnt from")
    parser.add_argument("--batches", type=int, default=4, help="of an epoch")
    parser.add_argument("--rate", type=float, default=5e-4, help="of learning")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began, ended = time.monotonic(), list[float]()
    for iteration, (steps, returns, reward) in enumerate(train(given), 1):
        ended += returns
        told = torch.tensor([time.monotonic() - began > given.seconds])
        torch.distributed.broadcast(told, 0)
        is_over = bool(told)
        if torch.distributed.get_rank() == 0 and (is_over or iteration % TOLD_EVERY == 0):
            mean = sum(ended) / max(1, len(ended))
            print(
                f"{time.monotonic() - began:.0f} s, {steps} steps: return {mean:.1f} of {len(ended)} episodes, "
                f"reward of a step {reward:.3f}",
                flush=True,
            )
            ended.clear()
        if is_over:
            torch.distributed.barrier()  # no rank leaves while another still talks to it
            break


def train(given: argparse.Namespace) -> Generator[tuple[int, list[float], float], None, None]:
    """Play and learn in turn until closed, which all ranks do after the same iteration.

    Yields:
        After each iteration: the steps of all ranks so far; of this rank the returns of the episodes that have ended
        in it, and the mean reward of a step.
    """
    torch.set_num_threads(1)
    join()
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    torch.manual_seed(given.seed)
    network = Transformer(OBSERVATION, ACTION)
    learning = DistributedDataParallel(network)
    adam = torch.optim.Adam(learning.parameters(), lr=given.rate, eps=1e-5)
    shards = open_shards_of_torch(SIGNATURE, trajectories=2 * given.worlds, steps=given.steps)
    torch.manual_seed(1000 * given.seed + rank)
    worlds, steps = Legs(given.worlds, seed=1000 * given.seed + rank), 0
    try:
        while True:
            reward = play(worlds, network, shards, given.worlds, given.steps)
            indices = shards.select(given.worlds * size, Fifo())
            fields, _ = shards.collect(indices, split=True)
            learn(learning, adam, {name: value.flatten(0, 1) for name, value in fields.items()}, given)
            if rank == 0:
                shards.evict(indices)
            steps += indices.numel() * given.steps
            returns = worlds.returns.copy()
            worlds.returns.clear()
            yield steps, returns, reward
    finally:
        worlds.close()
        shards.close()
        torch.distributed.destroy_process_group()


def join() -> None:
    """Meet the other ranks that torchrun has started; without it this one is alone."""
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
    else:
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)


def play(worlds: Legs, network: Transformer, shards: Shards, count: int, steps: int) -> float:
    """Commit a trajectory of each world. Returns the mean reward of a step, not scaled."""
    buffer = shards.allocate(count)
    reward, goes_on, ended = torch.zeros(3, steps, count).unbind()
    value, following = torch.zeros(2, steps, count, LEGS).unbind()
    for t in range(steps):
        obs = worlds.obs
        action, log_prob, value[t] = network.act(obs)
        buffer.write(t, {"obs": obs, "action": action, "log_prob": log_prob})
        reward[t], terminated, has_ended, last = worlds.step(action)
        goes_on[t], ended[t] = ~terminated, has_ended
        if t == steps - 1 or bool(has_ended.any()):
            following[t] = network.value(network.encode(last)).detach()[..., 0]
        if t:
            following[t - 1] = torch.where(ended[t - 1, :, None] > 0, following[t - 1], value[t])
    advantage = advantages(reward[..., None], value, following, goes_on[..., None], ended[..., None])
    for t in range(steps):
        buffer.write(t, {"advantage": advantage[t], "value_target": advantage[t] + value[t]})
    buffer.commit(steps)
    return float(reward.mean()) / worlds.scale


def advantages(reward: Tensor, value: Tensor, following: Tensor, goes_on: Tensor, ended: Tensor) -> Tensor:
    """Generalised advantages `[T, N, L]`; an episode that was cut off goes on in the value of what it saw last."""
    error = reward + DISCOUNT * goes_on * following - value
    found, later = torch.zeros_like(value), torch.zeros_like(value[0])
    for t in reversed(range(len(value))):
        found[t] = later = error[t] + DISCOUNT * DECAY * (1 - ended[t]) * later
    return found


def learn(
    learning: DistributedDataParallel, adam: torch.optim.Adam, steps: dict[str, Tensor], given: argparse.Namespace
) -> None:
    """Go through the steps `[M, ...]` of the trajectories `epochs` times, by PPO's clipped loss."""
    advantage = steps["advantage"]
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    for _ in range(given.epochs):
        for part in torch.randperm(len(advantage)).chunk(given.batches):
            log_prob, value = learning(steps["obs"][part], steps["action"][part])
            ratio, gain = (log_prob - steps["log_prob"][part]).exp(), advantage[part]
            gained = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
            missed = (value - steps["value_target"][part]).square().mean()
            adam.zero_grad()
            (missed - gained).backward()
            torch.nn.utils.clip_grad_norm_(learning.parameters(), LARGEST_NORM)
            adam.step()


if __name__ == "__main__":
    main()
