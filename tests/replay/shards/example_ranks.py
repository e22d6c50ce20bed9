"""Ranks of an example with the environment that torchrun gives them, forked from one process: torch is imported once.

python tests/replay/shards/example_ranks.py RANKS EXAMPLE [ARGUMENT ...]
"""

import os
import runpy
import socket
import sys

import torch._dynamo  # noqa: F401 - an optimizer imports it, in each rank: the largest part of a short run
from torch.nn.parallel import DistributedDataParallel  # noqa: F401 - what the ranks need, before they are there

import gmi_drl.replay.shards  # noqa: F401


def main(ranks, example, *arguments):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    sys.argv[:] = [example, *arguments]
    sys.path.insert(0, os.path.dirname(example))  # as Python does with a script
    children = []
    for rank in range(int(ranks)):
        children.append(os.fork())
        if not children[-1]:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            runpy.run_path(example, run_name="__main__")
            return 0
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
