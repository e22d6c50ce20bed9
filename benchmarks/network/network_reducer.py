"""The role of `network_cost.py`: measures a sum of the group."""

import time

import torch

from gmi_drl import DRL_role
from gmi_drl.comm.reduction import Reduction

ROUNDS = 10
"""The least number of sums; their speed decides how many more fit into the time."""


class Reducer(DRL_role):
    """One rank."""

    def GMI_run(self, numel: int, seconds: float) -> float:
        """Return the seconds of a sum of `numel` float32 numbers, in a series of sums."""
        reduction = self.mgr.reduction(self.mgr.named_group("trainers"))
        bucket = reduction.bucket(numel)
        bucket.fill_(1.0)
        reduction.reduce(bucket)
        if not (bucket == reduction.group.size).all():
            raise RuntimeError(f"sums of ones are {bucket.unique().tolist()}")
        bucket.zero_()  # sums of zeros stay zeros
        for _ in range(2):  # TCP's windows grow with traffic, so the second series counts
            own = torch.tensor([seconds / _seconds_of(reduction, bucket, ROUNDS)], dtype=torch.float64)
            taken = _seconds_of(reduction, bucket, max(ROUNDS, int(reduction.group.gather(own).min())))
        return taken


def _seconds_of(reduction: Reduction, bucket: torch.Tensor, rounds: int) -> float:
    began = time.perf_counter()
    for _ in range(rounds):
        reduction.reduce(bucket)
    return (time.perf_counter() - began) / rounds
