"""Computes the cost of communication of a template: COM / BW of Table 5 by the alpha-beta model (section 5.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from gmi_drl.hardware.speeds import GPU_MEMORY, OF_CORES, Speeds
from gmi_drl.layout.mapping import MappingList, select_by_layout, size_of
from gmi_drl.layout.reduction_method import Kind, ReductionMethod
from gmi_drl.layout.reductions import IPC, MRR, by_speed, require_across_hosts, usual_reduction
from gmi_drl.units import human_bytes

UNTRIED = (
    "not measured: whether the GPU lets GMIs map each other's memory, and how fast they reduce; `gmi-drl plan` "
    "measures both there"
)
"""The reason for IPC if nothing was measured."""

NO_TIME = (
    "there was no time to measure how fast GMIs reduce (give more with --budget), so they use IPC, the usual reduction "
    "of GMIs of one GPU"
)
"""The reason for IPC in a plan that measured points, but had no time for speeds."""

FAILED = "measuring how fast GMIs reduce failed, so IPC is not used"
"""The reason against IPC if the probe of speeds died or hung."""

IPC_UNMEASURED = (
    "IPC, which GMIs of one GPU can use, was not measured: the GPU refuses it, or the node has several GPUs, and "
    "speeds are measured between two of them"
)
"""The reason against IPC if speeds are known, but not that of IPC."""


@dataclass(frozen=True)
class Communication:
    """What crosses the borders of GMIs of one backend in an iteration: reductions, and messages between roles.

    Its `method` is the reduction with which GMIs are measured, confirmed and trained. Only reductions have predicted
    seconds; the speed of messages was not measured.

    Args:
        reduces: Reductions in an iteration.
        bucket_bytes: Bytes of one reduction, the paper's M_p.
        architecture: The processor, which some methods need. If it allows none over several hosts, asking for a method
            raises NoFeasiblePlanError.
        kind: The kind of the GMIs' devices.
        speeds: Speeds of the ways between the GMIs; None if not measured, empty if measuring failed.
        devices_by_host: Devices of each machine, if the GMIs are on several.
        message_bytes_per_env: Bytes of messages for one environment.
        maps_memory: Whether the backend lets GMIs of a GPU map each other's memory there.
        untried: The reason for IPC if no speeds are known, in a sentence.
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
        """The number of machines."""
        return len(self.devices_by_host)

    def method(self, mapping: MappingList) -> ReductionMethod:
        """The fastest reduction for a mapping list by the model; without speeds the usual one."""
        if self.hosts == 1 and not self._known(mapping, self.speeds or {}):
            maps_memory = self.maps_memory and self.speeds is None  # IPC may be what made measuring fail
            return usual_reduction(mapping, self.architecture, self.kind, maps_memory=maps_memory)
        (_, fastest), *_ = self._by_speed(mapping)
        return fastest

    def method_of_part(self, part: MappingList, whole: MappingList) -> ReductionMethod:
        """The reduction for GMIs of one device that are measured for a whole layout: that of the whole, if they can."""
        of_all = self.method(whole)
        if size_of(part) > 1 and of_all.is_for(part, self.kind, self.architecture):
            return of_all
        return self.method(part)

    def seconds(self, mapping: MappingList) -> float:
        """Seconds of all reductions of an iteration by the fastest method: COM / BW (Table 5) and rounds."""
        if not self.reduces:
            return 0.0
        (seconds, _), *_ = self._by_speed(mapping)
        return self.reduces * seconds

    def why(self, mapping: MappingList) -> str:
        """The sentence with the reason for the method: its time, the next fastest, and the paper's choice."""
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
        """A sentence that says that no speeds of such devices are known; None if they are."""
        if self.kind == "cpu" or not self.reduces or self.speeds:
            return None
        return "communication: no speed between GMIs of GPUs is known, those between cores are taken"

    def known_speeds(self, mapping: MappingList) -> Speeds:
        """The speeds for the model: the measured ones, or those of cores if none of them applies to these GMIs."""
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
        return known or self._known(mapping, OF_CORES)  # has a way for every processor

    def _known(self, mapping: MappingList, speeds: Speeds) -> list[tuple[float, ReductionMethod]]:
        met = list(filter(None, mapping if self.hosts == 1 else by_host(mapping, self.devices_by_host)))
        fit = by_speed(met, self.bucket_bytes, speeds, self.kind, self.architecture, self.hosts)
        known = [pair for pair in fit if self.maps_memory or not pair[1].maps_memory]
        # The rings of MRR would share a host's network link, which the model does not include.
        return known if self.hosts == 1 else [pair for pair in known if pair[1] is not MRR]


def by_host(mapping: MappingList, devices: Sequence[int]) -> MappingList:
    """The mapping list with all GMIs of a host on one device, since they share memory.

    Args:
        mapping: The mapping list of all devices, host by host. One of fewer devices is returned unchanged.
        devices: Devices of each host.
    """
    if len(mapping) != sum(devices):
        return mapping
    ends = [0, *accumulate(devices)]
    return [list(chain.from_iterable(mapping[start:end])) for start, end in pairwise(ends)]


NO_COMMUNICATION = Communication()
"""Nothing crosses the borders of the GMIs."""


def milliseconds(seconds: float) -> str:
    """A time in milliseconds, with two digits or all before the point."""
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.2g} ms"
