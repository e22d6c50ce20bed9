"""The role of question 8 of `first_light.py`: how long our own reductions take, on the device of a GMI."""

from functools import partial

import torch
from first_light_talk import attached, attempt, microseconds, say

from gmi_drl import DRL_role


class Reducer(DRL_role):
    """One rank."""

    def GMI_run(self, counts: list[int]) -> None:
        """Tell microseconds by method and number of float32 parameters."""
        torch.ones(1, device=self.mgr.device)
        say(device=str(self.mgr.device), attached=attached())
        for name in self.mgr.layout.groups:
            attempt(name, partial(self._microseconds, name, counts))

    def _microseconds(self, name: str, counts: list[int]) -> dict[int, float]:
        """Of a sum whose terms have just been written on the device, as by a backward pass."""
        reduction = self.mgr.reduction(self.mgr.named_group(name))
        gradient = torch.ones(max(counts), device=self.mgr.device)
        bucket = reduction.bucket(max(counts))
        times = {
            count: microseconds(partial(reduction.reduce, bucket[:count]), partial(bucket.copy_, gradient))
            for count in counts
        }
        if not (bucket[: counts[-1]] == len(self.mgr.named_group(name).members)).all():
            raise RuntimeError(f"sums of ones are {bucket[: counts[-1]].unique().tolist()}")
        return times
