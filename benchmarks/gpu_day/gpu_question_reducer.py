"""The role of question 8 of `gpu_questions.py`: times our own reductions on the device of a GMI."""

from functools import partial

import torch
from gpu_question_helpers import attempt, microseconds, mps_clients, say

from gmi_drl import DRL_role


class Reducer(DRL_role):
    """One rank."""

    def GMI_run(self, groups: dict[str, dict[str, int]]) -> None:
        """Return microseconds by method and number of float32 parameters.

        Args:
            groups: By method, the names of its groups, each with the number of parameters of its bucket.
        """
        say(device=str(self.mgr.device))
        for method, numels in groups.items():
            attempt(
                method, lambda some=numels: {numel: self._microseconds(name, numel) for name, numel in some.items()}
            )

    def _microseconds(self, name: str, numel: int) -> float:
        """Microseconds of a sum whose terms were just written on the device, as by a backward pass."""
        group = self.mgr.named_group(name)
        reduction = self.mgr.reduction(group)
        bucket, gradient = reduction.bucket(numel), torch.ones(numel, device=self.mgr.device)
        reduction.reduce(bucket)
        if self.GMI_id == 0:  # the others have their contexts and wait for this rank in the next sum
            say(mps_clients=len(mps_clients()))
        time = microseconds(partial(reduction.reduce, bucket), partial(bucket.copy_, gradient))
        if not (bucket == len(group.members)).all():
            raise RuntimeError(f"sums of ones are {bucket.unique().tolist()}")
        return time
