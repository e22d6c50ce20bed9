"""What communication costs a template (paper section 5.1, equations 2 and 3, Tables 4 and 5)."""

from dataclasses import dataclass

from gmi_drl.mapping import MappingList
from gmi_drl.reductions import Kind, usual_reduction
from gmi_drl.speeds import OF_CORES, Speeds


@dataclass(frozen=True)
class Communication:
    """The gradient reductions of one iteration.

    Args:
        reduces: How many an iteration has.
        bucket_bytes: The paper's M_p.
        architecture: Of the processor, which decides how they are done.
        kind: Of the devices of the GMIs.
        speeds: Of the ways between them; None where nobody has measured them.
    """

    reduces: int = 0
    bucket_bytes: int = 0
    architecture: str = ""
    kind: Kind = "cpu"
    speeds: Speeds | None = None

    def seconds(self, mapping: MappingList) -> float:
        """COM / BW of one iteration (Table 5), and what its rounds take, for GMIs that lie so on devices."""
        if not self.reduces:
            return 0.0
        method = usual_reduction(mapping, self.architecture)
        return self.reduces * method.seconds(mapping, self.bucket_bytes, self.speeds or OF_CORES)

    @property
    def doubt(self) -> str | None:
        """That the speeds are none of such devices, in a sentence; None where they are."""
        if self.kind == "cpu" or not self.reduces or self.speeds is not None:
            return None
        return "communication: no speed between GMIs of GPUs is known, those between cores are taken"


NO_COMMUNICATION = Communication()
"""Of GMIs whose borders nothing crosses."""


def throughput(num_gmis: int, steps: int, iteration_s: float, communication_s: float) -> float:
    """Equations 2 and 3 in steps per second: all GMIs do `steps` in T_s + T_a (+ T_t), `iteration_s`, and COM / BW."""
    return num_gmis * steps / (iteration_s + communication_s)
