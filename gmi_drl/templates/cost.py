"""What communication costs a template (paper section 5.1, equations 2 and 3, Tables 4 and 5)."""

from dataclasses import dataclass
from itertools import chain, pairwise

from gmi_drl.mapping import MappingList, select_by_layout
from gmi_drl.reduction_method import Kind, ReductionMethod
from gmi_drl.reductions import MRR, by_speed
from gmi_drl.speeds import OF_CORES, Speeds
from gmi_drl.units import human_bytes


@dataclass(frozen=True)
class Communication:
    """What crosses the borders of GMIs in one iteration: gradient reductions, and messages where roles are apart.

    Nobody has measured how fast messages go: only reductions have seconds.

    Args:
        reduces: How many an iteration has.
        bucket_bytes: The paper's M_p.
        architecture: Of the processor, which allows some methods alone.
        kind: Of the devices of the GMIs.
        speeds: Of the ways between them; None where nobody has measured them.
        hosts: On how many machines the GMIs are.
        message_bytes_per_env: Of the messages that carry what one environment met.
    """

    reduces: int = 0
    bucket_bytes: int = 0
    architecture: str = ""
    kind: Kind = "cpu"
    speeds: Speeds | None = None
    hosts: int = 1
    message_bytes_per_env: int = 0

    def method(self, mapping: MappingList) -> ReductionMethod:
        """The fastest way to reduce over GMIs that lie so on devices, by the model."""
        (_, fastest), *_ = self._by_speed(mapping)
        return fastest

    def seconds(self, mapping: MappingList) -> float:
        """COM / BW of one iteration (Table 5), and what its rounds take, by the fastest way."""
        if not self.reduces:
            return 0.0
        (seconds, _), *_ = self._by_speed(mapping)
        return self.reduces * seconds

    def why(self, mapping: MappingList) -> str:
        """Why the fastest is taken, what would come next, and what the paper would take, in a sentence."""
        (seconds, _), *others = self._by_speed(mapping)
        known = "by measured speeds" if self.speeds else "by usual speeds"
        known = known if self.hosts == 1 else "by the network as it is described"
        times = [f"{milliseconds(seconds)} for each sum of {human_bytes(self.bucket_bytes)}"]
        times += [f"{other.name} would take {milliseconds(other_s)}" for other_s, other in others[:1]]
        return f"{known}, {', '.join(times)}; by the layout alone (the paper's Algorithm 1) {select_by_layout(mapping)}"

    @property
    def doubt(self) -> str | None:
        """That the speeds are none of such devices, in a sentence; None where they are."""
        if self.kind == "cpu" or not self.reduces or self.speeds:
            return None
        return "communication: no speed between GMIs of GPUs is known, those between cores are taken"

    def known_speeds(self, mapping: MappingList) -> Speeds:
        """What the model goes by: the measured speeds, or those of cores where none of these GMIs' ways is known."""
        return self.speeds if self.speeds and self._known(mapping, self.speeds) else OF_CORES

    def _by_speed(self, mapping: MappingList) -> list[tuple[float, ReductionMethod]]:
        known = self._known(mapping, self.speeds or {})
        return known or self._known(mapping, OF_CORES)  # which know a way of every processor

    def _known(self, mapping: MappingList, speeds: Speeds) -> list[tuple[float, ReductionMethod]]:
        met = mapping if self.hosts == 1 else by_host(mapping, self.hosts)
        known = by_speed(met, self.bucket_bytes, speeds, self.kind, self.architecture, self.hosts)
        # The rings of MRR would share a host's way out, which the model does not know.
        return known if self.hosts == 1 else [pair for pair in known if pair[1] is not MRR]


def by_host(mapping: MappingList, hosts: int) -> MappingList:
    """Devices in a row, as many for each host: all GMIs of a host count as on one device, since they share memory."""
    if len(mapping) <= hosts:
        return mapping
    ends = [round(len(mapping) * i / hosts) for i in range(hosts + 1)]
    return [list(chain.from_iterable(mapping[start:end])) for start, end in pairwise(ends)]


NO_COMMUNICATION = Communication()
"""Of GMIs whose borders nothing crosses."""


def throughput(num_gmis: int, steps: int, iteration_s: float, communication_s: float) -> float:
    """Equations 2 and 3 in steps per second: all GMIs do `steps` in T_s + T_a (+ T_t), `iteration_s`, and COM / BW."""
    return num_gmis * steps / (iteration_s + communication_s)


def milliseconds(seconds: float) -> str:
    """With two digits, or all before the point."""
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.2g} ms"
