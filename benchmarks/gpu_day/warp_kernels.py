"""How long Warp's kernels take in a control step of a task: without graphs, so that each is timed by itself.

    python warp_kernels.py TASK NUM_ENV

Prints how many run in a step, their milliseconds together, and those of the slowest.
"""

import argparse
from collections import Counter

import torch
from gpu_question_helpers import say

from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS

STEPS, WARM_UP, TOLD = 5, 5, 25


def main() -> None:
    """Time them, on a GPU; on cores there are none to be timed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASK_SPECS)
    parser.add_argument("num_env", type=int)
    given = parser.parse_args()
    if torch.cuda.is_available():
        say(**kernel_times(given.task, given.num_env))


@torch.inference_mode()
def kernel_times(name: str, num_env: int) -> dict[str, float]:
    """Kernels and milliseconds of a step, then the milliseconds of the slowest kernels by name."""
    import warp as wp

    task = make(name, num_env=num_env, device="cuda", physics="warp", cuda_graphs=False)
    action = torch.randn(num_env, task.spec.action.size, device="cuda")
    for _ in range(WARM_UP):
        task.step(action)
    wp.timing_begin(cuda_filter=wp.TIMING_KERNEL)
    for _ in range(STEPS):
        task.step(action)
    timed = wp.timing_end()
    times: Counter[str] = Counter()
    for one in timed:
        times[one.name] += one.elapsed / STEPS
    slowest = {kernel: round(elapsed, 4) for kernel, elapsed in times.most_common(TOLD)}
    return {"kernels": len(timed) / STEPS, "milliseconds": round(times.total(), 3)} | slowest


if __name__ == "__main__":
    main()
