"""mpi4py: ranks on a core each that sum a vector in place by Allreduce, until so many sums are done or time is over."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from settings import make_parser

WARM_UP = 20
RANK = "PMI_RANK"
"""Which MPICH's mpiexec sets."""


def main() -> None:
    """Start the ranks, `--num-env` of them, or be one. A line has sums so far in `env_steps`, and their seconds."""
    parser = make_parser(__doc__)
    parser.add_argument("--numel", type=int, required=True)
    parser.add_argument("--reduces", type=int, required=True)
    arguments = parser.parse_args()
    if RANK in os.environ:
        reduce(arguments.numel, arguments.reduces, arguments.seconds)
    else:
        mpiexec = Path(sys.executable).with_name("mpiexec")
        subprocess.run([mpiexec, "-n", str(arguments.num_env), sys.executable, *sys.argv], check=True)


def reduce(numel: int, reduces: int, seconds: float) -> None:
    """Sum again and again. Before each sum, this core writes the vector anew, as a backward pass does."""
    from mpi4py import MPI  # starts MPI, so not in the process that starts ranks

    ranks = MPI.COMM_WORLD
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [cores[ranks.rank % len(cores)]])
    source = np.random.default_rng(ranks.rank).standard_normal(numel, np.float32)
    vector, spent, ends = np.zeros_like(source), 0.0, time.monotonic() + seconds
    lines = []
    for count in range(-WARM_UP, reduces):
        vector[:] = source
        began = time.perf_counter()
        ranks.Allreduce(MPI.IN_PLACE, vector, MPI.SUM)
        if count >= 0:
            spent += time.perf_counter() - began
            lines.append(json.dumps({"env_steps": count + 1, "wall_s": spent, "return_mean": None}))
        if ranks.bcast(time.monotonic() > ends):
            break
    if ranks.rank == 0:
        print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
