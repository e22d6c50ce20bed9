"""What serving returns: the steps, times and episodes of each GMI, and their sums."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from signal import Signals

from gmi_drl.gmi.utilisation import Usage
from gmi_drl.roles.serving.latency import Latencies


@dataclass(frozen=True)
class ServedGMI:
    """The steps, times (`time.monotonic` of its machine) and sums over completed episodes of one GMI.

    If simulators and agents are on different GMIs, it is an agent with the environments of all its simulators, and
    `sync_s` is the time for communication between them. `bad` counts episodes that ended because the physics became
    invalid; their returns are left out. `latencies` are those of its control steps, each of all its environments.
    `policies` has the sums over episodes of each of several policies, each agent's episode being one.
    """

    num_env: int
    steps: int
    started_s: float
    ended_s: float
    sim_s: float
    act_s: float
    sync_s: float
    episodes: int
    return_sum: float
    length_sum: float
    bad: int
    latencies: Latencies
    policies: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    node: str | None = None

    @property
    def env_steps(self) -> int:
        """Control steps of all its environments."""
        return self.steps * self.num_env

    @property
    def steps_per_second(self) -> float:
        """The control steps per second of this GMI."""
        return self.env_steps / max(self.ended_s - self.started_s, 1e-9)


@dataclass(frozen=True)
class Served:
    """The results of all GMIs by id, the iteration of the policy, and the signal that ended serving early, if any.

    `devices` is the utilisation of the GPUs meanwhile.
    """

    gmis: dict[int, ServedGMI]
    iteration: int
    signal: Signals | None
    devices: Usage

    @property
    def policies(self) -> dict[str, dict[str, float]]:
        """The sums over episodes of each of several policies, of all GMIs; empty if there is one policy."""
        sums: dict[str, dict[str, float]] = {}
        for gmi in self.gmis.values():
            for name, own in gmi.policies.items():
                so_far = sums.setdefault(name, dict.fromkeys(own, 0))
                sums[name] = {what: so_far[what] + number for what, number in own.items()}
        return sums

    @property
    def latencies(self) -> Latencies:
        """The latencies of the control steps of all GMIs."""
        return Latencies.joined(gmi.latencies for gmi in self.gmis.values())

    @property
    def steps_per_second(self) -> float:
        """The control steps per second of all GMIs, from the first start to the last end.

        The start and the end are of the machine that took longest: each has a clock of its own.
        """
        by_node: dict[str | None, list[ServedGMI]] = {}
        for gmi in self.gmis.values():
            by_node.setdefault(gmi.node, []).append(gmi)
        spans = [span(gmis) for gmis in by_node.values()]
        longest_s = max(ended_s - began_s for began_s, ended_s in spans)
        return sum(gmi.env_steps for gmi in self.gmis.values()) / max(longest_s, 1e-9)


def span(gmis: Collection[ServedGMI]) -> tuple[float, float]:
    """The times of the first start and the last end of GMIs of one machine."""
    return min(gmi.started_s for gmi in gmis), max(gmi.ended_s for gmi in gmis)
