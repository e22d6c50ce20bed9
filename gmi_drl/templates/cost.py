"""What communication costs a template (paper section 5.1, equation 3 and Table 5)."""

from dataclasses import dataclass

BYTES_PER_SECOND = {"MPR-shm": 8e9, "MPR-gloo": 9e8}
"""BW of the reductions that exist: `gmi-drl bench reduction_1536k`, two cores of one host. On a GPU not measured."""


@dataclass(frozen=True)
class Communication:
    """The gradient reductions of one iteration of TCG_EX.

    Args:
        reduces: How many an iteration has.
        bucket_bytes: The paper's M_p.
        bytes_per_second: The paper's BW.
    """

    reduces: int
    bucket_bytes: int
    bytes_per_second: float

    def seconds(self, num_gmis: int) -> float:
        """COM / BW of one iteration, with COM = 2 (n - 1) M_p / n a reduction (Table 5)."""
        return self.reduces * 2 * (num_gmis - 1) / num_gmis * self.bucket_bytes / self.bytes_per_second


def training_throughput(num_gmis: int, steps: int, iteration_s: float, communication_s: float) -> float:
    """Equation 3 in steps per second: all GMIs do `steps` in T_s + T_a + T_t (`iteration_s`) and COM / BW."""
    return num_gmis * steps / (iteration_s + communication_s)
