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
        on_gpu: Whether that is between GPUs, else between cores.
    """

    reduces: int
    bucket_bytes: int
    method: ReductionMethod
    on_gpu: bool = False

    def seconds(self, num_gmis: int) -> float:
        """COM / BW of one iteration (Table 5)."""
        return self.reduces * self.method.seconds(num_gmis, self.bucket_bytes, on_gpu=self.on_gpu)

    @property
    def doubt(self) -> str | None:
        """That the bandwidth is none of such devices, in a sentence; None where it is."""
        if not self.on_gpu or not self.reduces or self.method.gpu_bytes_per_second is not None:
            return None
        taken = f"that between cores is taken, {self.method.bytes_per_second / 1e9:.1f} GB/s"
        return f"communication: the bandwidth of {self.method.name} between GPUs is unmeasured, {taken}"


NO_COMMUNICATION = Communication(reduces=0, bucket_bytes=0, method=NONE)
"""Of GMIs whose borders nothing crosses."""


def throughput(num_gmis: int, steps: int, iteration_s: float, communication_s: float) -> float:
    """Equations 2 and 3 in steps per second: all GMIs do `steps` in T_s + T_a (+ T_t), `iteration_s`, and COM / BW."""
    return num_gmis * steps / (iteration_s + communication_s)
