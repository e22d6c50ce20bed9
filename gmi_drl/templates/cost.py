"""What communication costs a template (paper section 5.1, equations 2 and 3, Tables 4 and 5)."""

from dataclasses import dataclass

from gmi_drl.reductions import NONE, ReductionMethod


@dataclass(frozen=True)
class Communication:
    """The gradient reductions of one iteration.

    Args:
        reduces: How many an iteration has.
        bucket_bytes: The paper's M_p.
        method: How they are done, which tells the paper's BW.
    """

    reduces: int
    bucket_bytes: int
    method: ReductionMethod

    def seconds(self, num_gmis: int) -> float:
        """COM / BW of one iteration (Table 5)."""
        return self.reduces * self.method.seconds(num_gmis, self.bucket_bytes)


NO_COMMUNICATION = Communication(reduces=0, bucket_bytes=0, method=NONE)
"""Of GMIs whose borders nothing crosses."""


def throughput(num_gmis: int, steps: int, iteration_s: float, communication_s: float) -> float:
    """Equations 2 and 3 in steps per second: all GMIs do `steps` in T_s + T_a (+ T_t), `iteration_s`, and COM / BW."""
    return num_gmis * steps / (iteration_s + communication_s)
