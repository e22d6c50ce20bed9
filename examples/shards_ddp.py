"""Trajectories in shards beside DDP, without a launcher of gmi-drl.

    torchrun --nproc-per-node 2 examples/shards_ddp.py

Each rank moves points through a room by a teacher, and puts these trajectories into its own shard. A network learns the
teacher's moves from batches that are drawn over all shards, the trajectories with the largest errors most often: each
rank gets its part of the list, and DDP averages the gradients. With `--checkpoints FOLDER` the shards are saved at the
end of each epoch.
"""

import argparse
from pathlib import Path

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gmi_drl.replay import Field, Signature
from gmi_drl.replay.shards import Shards, Weighted, open_shards_of_torch

STEPS, TRAJECTORIES, BATCH, AHEAD = 32, 256, 64, 2
SIGNATURE = Signature([Field("position", (2,)), Field("move", (2,))])


def play(shards: Shards, count: int) -> None:
    """Commit trajectories of a teacher that goes home in a curve; they are written in place."""
    buffer = shards.allocate(count)
    position = torch.rand(count, 2) * 2 - 1
    for step in range(STEPS):
        move = 0.1 * torch.stack((-position[:, 0] - position[:, 1], position[:, 0] - position[:, 1]), 1).tanh()
        buffer.write(step, {"position": position, "move": move})
        position = position + move
    buffer.commit(STEPS)


def errors_of(network: nn.Module, fields: dict[str, Tensor]) -> Tensor:
    """The mean squared error of each trajectory, `[n]`."""
    error: Tensor = (network(fields["position"]) - fields["move"]).square().mean((1, 2))
    return error


def main() -> None:
    """Fill the shards, train, and tell the errors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--checkpoints", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    torch.manual_seed(rank)
    shards = open_shards_of_torch(SIGNATURE, trajectories=TRAJECTORIES, steps=STEPS)
    play(shards, TRAJECTORIES)
    network = DistributedDataParallel(nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 2)))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    first, last, epochs = 0.0, 0.0, 0
    batches = shards.prefetch(AHEAD, BATCH * size, Weighted(0.6), split=True)
    for number in range(given.updates):
        indices, fields, _ = next(batches)
        errors = errors_of(network, fields)
        optimizer.zero_grad()
        errors.mean().backward()
        optimizer.step()
        shards.update(indices.chunk(size)[rank], errors.detach())
        last = float(errors.detach().mean())
        first = first if number else last
        if given.checkpoints and shards.epoch() >= epochs + 1:  # the same on all ranks
            epochs = int(shards.epoch())
            shards.save(given.checkpoints, number + 1)
    shards.end_prefetch()
    moved = sum(shards.bytes.values())
    print(
        f"rank {rank}: error {first:.6f}, then {last:.6f}; {shards.epoch():.1f} epochs, {moved} bytes sent", flush=True
    )
    torch.distributed.barrier()
    shards.close()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
