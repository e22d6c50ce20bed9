"""torchrl: a million transitions of 57 floats in one column; adds or uniform samples."""

import torch
from replay_loops import ADDED, ITEMS, measure, read_replay_arguments
from torchrl.data import LazyTensorStorage, ReplayBuffer


def main() -> None:
    """Call for the time given."""
    arguments = read_replay_arguments(__doc__)
    torch.set_num_threads(arguments.threads)
    count = arguments.num_env
    buffer = ReplayBuffer(storage=LazyTensorStorage(ITEMS), batch_size=count)
    filling, new = torch.rand(ADDED, 57), torch.rand(count, 57)
    for _ in range(ITEMS // ADDED):
        buffer.extend(filling)
    calls = {"uniform": lambda: buffer.sample(count), "add": lambda: buffer.extend(new)}
    measure(calls[arguments.what], count, arguments.seconds)


if __name__ == "__main__":
    main()
