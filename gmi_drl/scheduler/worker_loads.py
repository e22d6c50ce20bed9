"""What links between machines carry, and how busy the services of workers are, at the pace of a division. Computed."""

from collections.abc import Iterator
from dataclasses import dataclass

from gmi_drl.scheduler.worker_cluster import ClusterSplit, Kind, Share
from gmi_drl.scheduler.worker_rates import Services
from gmi_drl.units import human_bytes, human_count


@dataclass(frozen=True)
class Link:
    """What each machine of a kind sends and receives, in bytes/s."""

    kind: str
    sent: float
    received: float

    @property
    def most(self) -> float:
        """The larger of both, which a full-duplex link must carry."""
        return max(self.sent, self.received)


@dataclass(frozen=True)
class Load:
    """How busy a service is.

    Args:
        service: What it is.
        part: Of what one of it can do; from 1 on it holds the others up.
        saturated: Actors at which it would be 1.
    """

    service: str
    part: float
    saturated: float

    @property
    def described(self) -> str:
        """In words."""
        return f"{self.service} {self.part:.1%} busy, full with {human_count(self.saturated)} actors"


def limits(split: ClusterSplit) -> tuple[float, ...]:
    """Steps/s of each side, the slowest first: actors with policy workers, trainers, the links."""
    return tuple(sorted((split.produced, split.learnt, carried(split))))


def pace(split: ClusterSplit) -> float:
    """Steps/s: those of the slowest side, for which the others wait."""
    return limits(split)[0]


def pace_setter(split: ClusterSplit) -> str:
    """The side that the others wait for."""
    sides = {"actors": split.asked, "policy workers": split.answered, "trainers": split.learnt, "links": carried(split)}
    return min(sides, key=lambda side: sides[side])


def carried(split: ClusterSplit) -> float:
    """Steps/s that the links can carry; infinite on one machine."""
    if split.network is None:
        return float("inf")
    rate = min(split.produced, split.learnt)
    most = max(link.most for link in links(split, rate))
    return split.network.speed.bytes_per_second / most * rate if most else float("inf")


def links(split: ClusterSplit, rate: float) -> list[Link]:
    """What each machine carries at so many steps/s of all actors."""
    sizes, hosts = split.sizes, split.training_hosts
    of_each = {kind.name: share.actors * split.rate_of(kind, share) * rate / split.asked for kind, share in split.parts}
    away = sum(kind.count * of_each[kind.name] for kind, share in split.parts if not share.trainers)
    asks = sum(kind.count * of_each[kind.name] for kind, share in split.parts if not share.policies)
    versions, readers = rate * split.updates_per_step * sizes.version_bytes, far_readers(split)
    found = []
    for kind, share in split.parts:
        sent = received = 0.0
        if share.trainers:
            received += away / hosts * sizes.step_bytes
            sent += versions * (readers / hosts if split.inline else readers)  # remote: all by the first host
        else:
            sent += of_each[kind.name] * sizes.step_bytes
            received += versions * (share.actors if split.inline else bool(share.policies))
        if not split.inline and share.policies:
            asked = asks * share.policies / split.policies
            received, sent = received + asked * sizes.request_bytes, sent + asked * sizes.answer_bytes
        elif not split.inline:
            made = of_each[kind.name]
            sent, received = sent + made * sizes.request_bytes, received + made * sizes.answer_bytes
        found.append(Link(kind.name, sent, received))
    return found


def far_readers(split: ClusterSplit) -> int:
    """How many get each version over the network: all actors of other machines if inline, else a machine each."""
    away = [(kind, share) for kind, share in split.parts if not share.trainers]
    if split.inline:
        return sum(kind.count * share.actors for kind, share in away)
    return sum(kind.count for kind, share in away if share.policies)


def loads(split: ClusterSplit, services: Services) -> list[Load]:
    """How busy each service is at the pace of the division, the busiest first."""
    rate = pace(split)
    found = [Load(name, part, split.actors / part) for name, part in _parts(split, services, rate) if part > 0]
    return sorted(found, key=lambda load: -load.part)


def links_told(split: ClusterSplit) -> str:
    """A sentence about the links."""
    assert split.network is not None
    most = split.network.speed.bytes_per_second
    each = [
        f"each {link.kind} sends {human_bytes(link.sent)}/s and receives {human_bytes(link.received)}/s "
        f"({link.most / most:.0%} of its link)"
        for link in links(split, pace(split))
    ]
    return f"computed of the network: {', '.join(each)}"


def _parts(split: ClusterSplit, services: Services, rate: float) -> Iterator[tuple[str, float]]:
    """Each service and the busy part of its core."""
    versions = rate * split.updates_per_step * services.version_s  # for one reader
    proxies = [_proxies(split, kind, share, services, rate) for kind, share in split.parts if not share.trainers]
    yield "the proxies of a machine of actors", max(proxies, default=0.0)
    yield "the launcher", sum(kind.count * _workers(share) for kind, share in split.parts) * services.beat_s
    if not split.inline:
        yield "versions to other machines", versions * far_readers(split)
        requests = (_requests(split, kind, share, services, rate) for kind, share in split.parts)
        yield "the policy workers' requests", max(requests)


def _proxies(split: ClusterSplit, kind: Kind, share: Share, services: Services, rate: float) -> float:
    """The busy part of the one process that stands for the actors of a machine on a trainers' host."""
    rollouts = _made(split, kind, share, rate) / (kind.rates.num_env * split.sizes.horizon)
    readers = share.actors if split.inline else 0
    return rollouts * services.rollout_s + rate * split.updates_per_step * readers * services.version_s


def _requests(split: ClusterSplit, kind: Kind, share: Share, services: Services, rate: float) -> float:
    """The busy part of a core that requests cost one policy worker, without their forward passes."""
    if not share.policies:
        return 0.0
    member = kind.rates.num_env / split.ring
    near = _made(split, kind, share, rate) / share.policies
    far = sum(one.count * _made(split, one, its, rate) for one, its in split.parts if not its.policies) / split.policies
    return (near * services.request_s + far * services.far_request_s) / member


def _made(split: ClusterSplit, kind: Kind, share: Share, rate: float) -> float:
    """Steps/s of a machine of this kind, at so many of all."""
    return share.actors * split.rate_of(kind, share) * rate / split.asked


def _workers(share: Share) -> int:
    return share.actors + share.policies + share.trainers
