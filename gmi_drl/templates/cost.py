"""What communication costs a template: COM / BW of Table 5 by the alpha-beta model (paper section 5.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from gmi_drl.hardware.speeds import GPU_MEMORY, OF_CORES, Speeds
from gmi_drl.layout.mapping import MappingList, select_by_layout, size_of
from gmi_drl.layout.reduction_method import Kind, ReductionMethod
from gmi_drl.layout.reductions import IPC, MRR, by_speed, require_across_hosts, usual_reduction
from gmi_drl.units import human_bytes

UNTRIED = (
    "it is not known whether the GPU lets its GMIs map each other's memory, nor how fast they reduce: `gmi-drl plan` "
    "measures it there"
)
"""Of IPC, where it is taken without having been measured."""

NO_TIME = (
    "there was no time to measure how fast GMIs reduce (give more with --budget): GMIs of one GPU usually take IPC, so "
    "these do"
)
"""Of IPC in a plan that measured, but had no time for speeds."""

FAILED = "measuring how fast GMIs reduce failed, so IPC is not taken untried"
"""Of GMIs that could reduce by IPC, where the probe of speeds died or hung."""

IPC_UNMEASURED = (
    "IPC, which GMIs of one GPU can use, was not measured: the GPU refuses it, or the node has several GPUs, and "
    "speeds are measured between two of them"
)
"""Of GMIs of one GPU that take another reduction since no speed of IPC is known."""


@dataclass(frozen=True)
class Communication:
    """What crosses the borders of GMIs in one iteration: gradient reductions, and messages where roles are apart.

    It is of GMIs that one backend cuts. Its `method` is how they reduce wherever they are measured, confirmed or
    trained. Nobody has measured how fast messages go: only reductions have seconds.

    Args:
        reduces: How many an iteration has.
        bucket_bytes: The paper's M_p.
        architecture: Of the processor, which allows some methods alone. Where it allows none over several hosts, what
            asks for a method raises NoFeasiblePlanError.
        kind: Of the devices of the GMIs.
        speeds: Of the ways between them; None if they were not measured, empty if measuring them failed.
        devices_by_host: How many devices each machine has, where the GMIs are on several.
        message_bytes_per_env: Of the messages that carry what one environment met.
        maps_memory: Whether the backend lets GMIs of a GPU map each other's memory there.
        untried: Why IPC is taken where no speeds were measured, in a sentence.
    """

    reduces: int = 0
    bucket_bytes: int = 0
    architecture: str = ""
    kind: Kind = "cpu"
    speeds: Speeds | None = None
    devices_by_host: tuple[int, ...] = (1,)
    message_bytes_per_env: int = 0
    maps_memory: bool = True
    untried: str = UNTRIED

    @property
    def hosts(self) -> int:
        """On how many machines the GMIs are."""
        return len(self.devices_by_host)

    def method(self, mapping: MappingList) -> ReductionMethod:
        """The fastest way to reduce over GMIs that lie so on devices, by the model; without speeds the usual one."""
        if self.hosts == 1 and not self._known(mapping, self.speeds or {}):
            maps_memory = self.maps_memory and self.speeds is None  # IPC may be what made measuring fail
            return usual_reduction(mapping, self.architecture, self.kind, maps_memory=maps_memory)
        (_, fastest), *_ = self._by_speed(mapping)
        return fastest

    def method_of_part(self, part: MappingList, whole: MappingList) -> ReductionMethod:
        """How GMIs of one device reduce when they are measured for a layout of all: as all do, where they can."""
        of_all = self.method(whole)
        if size_of(part) > 1 and of_all.is_for(part, self.kind, self.architecture):
            return of_all
        return self.method(part)

    def seconds(self, mapping: MappingList) -> float:
        """COM / BW of one iteration (Table 5), and what its rounds take, by the fastest way."""
        if not self.reduces:
            return 0.0
        (seconds, _), *_ = self._by_speed(mapping)
        return self.reduces * seconds

    def why(self, mapping: MappingList) -> str:
        """Why the fastest is taken, what would come next, and what the paper would take, in a sentence."""
        if self.method(mapping) is IPC and not self._known(mapping, self.speeds or {}):
            return self.untried
        (seconds, _), *others = self._by_speed(mapping)
        known = "by measured speeds" if self.speeds else "by usual speeds"
        known = known if self.hosts == 1 else "by the network as it is described"
        times = [f"{milliseconds(seconds)} for each sum of {human_bytes(self.bucket_bytes)}"]
        times += [f"{other.name} would take {milliseconds(other_s)}" for other_s, other in others[:1]]
        by_layout = select_by_layout(list(filter(None, mapping)))
        reason = f"{known}, {', '.join(times)}; by the layout alone (the paper's Algorithm 1) {by_layout}"
        return "; ".join([reason, *self._about_ipc(mapping)])

    @property
    def doubt(self) -> str | None:
        """That the speeds are none of such devices, in a sentence; None where they are."""
        if self.kind == "cpu" or not self.reduces or self.speeds:
            return None
        return "communication: no speed between GMIs of GPUs is known, those between cores are taken"

    def known_speeds(self, mapping: MappingList) -> Speeds:
        """What the model goes by: the measured speeds, or those of cores where none of these GMIs' ways is known."""
        return self.speeds if self.speeds and self._known(mapping, self.speeds) else OF_CORES

    def _about_ipc(self, mapping: MappingList) -> list[str]:
        """Why GMIs that could use IPC do not, if the reason is that its speed is not known."""
        could = self.maps_memory and IPC.is_for(list(filter(None, mapping)), self.kind, self.architecture, self.hosts)
        if not could or self.speeds is None or GPU_MEMORY in self.speeds:
            return []
        return [IPC_UNMEASURED if self.speeds else FAILED]

    def _by_speed(self, mapping: MappingList) -> list[tuple[float, ReductionMethod]]:
        if self.hosts > 1:
            require_across_hosts(self.architecture)
        known = self._known(mapping, self.speeds or {})
        return known or self._known(mapping, OF_CORES)  # which know a way of every processor

    def _known(self, mapping: MappingList, speeds: Speeds) -> list[tuple[float, ReductionMethod]]:
        met = list(filter(None, mapping if self.hosts == 1 else by_host(mapping, self.devices_by_host)))
        fit = by_speed(met, self.bucket_bytes, speeds, self.kind, self.architecture, self.hosts)
        known = [pair for pair in fit if self.maps_memory or not pair[1].maps_memory]
        # The rings of MRR would share a host's way out, which the model does not know.
        return known if self.hosts == 1 else [pair for pair in known if pair[1] is not MRR]


def by_host(mapping: MappingList, devices: Sequence[int]) -> MappingList:
    """All GMIs of a host as on one device, since they share memory.

    Args:
        mapping: Of all devices, host after host; of fewer it stays as it is.
        devices: How many each host has.
    """
    if len(mapping) != sum(devices):
        return mapping
    ends = [0, *accumulate(devices)]
    return [list(chain.from_iterable(mapping[start:end])) for start, end in pairwise(ends)]


NO_COMMUNICATION = Communication()
"""Of GMIs whose borders nothing crosses."""


def milliseconds(seconds: float) -> str:
    """With two digits, or all before the point."""
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.2g} ms"
