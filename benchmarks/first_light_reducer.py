"""The role of question 8 of `first_light.py`: how long our own reductions take, on the device of a GMI."""

from functools import partial

import torch
from first_light_talk import attached, attempt, microseconds, say

from gmi_drl import DRL_role
from gmi_drl.comm import open_group, open_reduction
from gmi_drl.reductions import MPR_GLOO, MPR_SHM, ReductionMethod


class Reducer(DRL_role):
    """One rank."""

    def GMI_run(self, counts: list[int]) -> None:
        """Tell microseconds by method and number of float32 parameters."""
        torch.ones(1, device=self.mgr.device)
        say(device=str(self.mgr.device), attached=attached())
        for method in (MPR_SHM, MPR_GLOO):
            attempt(method.name, partial(self._microseconds, method, counts))

    def _microseconds(self, method: ReductionMethod, counts: list[int]) -> dict[int, float]:
        """Of a sum whose terms have just been written on the device, as by a backward pass."""
        group = open_group(
            method,
            self.group.members.index(self.GMI_id),
            len(self.group.members),
            fd=self.mgr.resources[self.group.name],
            path=self.mgr.meeting / method.name,
            hang_s=self.mgr.hang_s,
        )
        reduction = open_reduction(method, group, self.mgr.device)
        gradient = torch.ones(max(counts), device=self.mgr.device)
        bucket = reduction.bucket(max(counts))
        times = {
            count: microseconds(partial(reduction.reduce, bucket[:count]), partial(bucket.copy_, gradient))
            for count in counts
        }
        if not (bucket[: counts[-1]] == len(self.group.members)).all():
            raise RuntimeError(f"sums of ones are {bucket[: counts[-1]].unique().tolist()}")
        return times
