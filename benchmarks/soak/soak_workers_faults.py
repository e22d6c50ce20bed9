"""The faults that `soak_workers.py` draws, and the trainings that they befall."""

import random
from dataclasses import dataclass

from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.policies import PolicySection
from gmi_drl.config.run_config import RunConfig
from gmi_drl.config.task_section import TaskSettings
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout

HANG_S, HANG_OF_LINKS_S, HANG_AGAIN_S = 8.0, 20.0, 60.0
"""Seconds that workers wait for one that is stopped; where a link is cut: more than it is away; for one that starts."""
EVERY = 5
"""Iterations between two checkpoints."""
TAG = "pettingzoo:mpe2.simple_tag_v3"
POLICIES = {"chasers": PolicySection(agents=("adversary_*",)), "runners": PolicySection(agents=("agent_0",))}
CUT_S = 5.0
"""Seconds for which a link is cut, fewer than a node may be silent."""
CUT, DOWN = f"link for {CUT_S:.0f} s", "link"
SLOW = {f"link of {one_way_ms:g} ms": one_way_ms for one_way_ms in (0.5, 5.0, 50.0)}
"""Milliseconds one way."""
LINKS = (CUT, DOWN, *SLOW)
AGAIN = ("actor", "policy worker")  # who is started again alone
MAX_LAG = 1


@dataclass(frozen=True)
class Fault:
    """A training and what befalls it.

    Args:
        far: Whether actors are also on a node without trainers.
        remote: Whether actors ask policy workers.
        several: Whether there are two policies.
        victim: `actor`, `policy worker`, `trainer`, `proxies`, or one of `LINKS`.
        is_stopped: Whether the victim is stopped, not killed.
        is_elastic: Whether one actor is enough.
        restarts: How often the run may restart.
        is_apart: Whether policy workers are on the node without trainers.
    """

    far: bool
    remote: bool
    several: bool
    victim: str
    is_stopped: bool
    is_elastic: bool
    restarts: int
    is_apart: bool = False

    def __str__(self) -> str:
        where, how = "far" if self.far else "near", "remote" if self.remote else "inline"
        how += " apart" if self.is_apart else ""
        more = (", one actor is enough" if self.is_elastic else "") + (", a restart" if self.restarts else "")
        deeds = dict.fromkeys(LINKS, "cut") | dict.fromkeys(SLOW, "paused")
        deed = deeds.get(self.victim, "stopped" if self.is_stopped else "killed")
        return f"{where}, {how}, {'two policies' if self.several else 'one policy'}{more}: {self.victim} {deed}"

    @property
    def goes_on(self) -> bool:
        """Whether the run must go on."""
        if self.is_stopped:
            return False
        if self.victim in LINKS:
            return self.victim != DOWN or self.is_elastic
        return (self.victim == "actor" and self.is_elastic) or (self.victim in AGAIN and self.restarts > 0)


def drawn(chance: random.Random, *, links: bool, only_links: bool = False) -> Fault:
    """A fault by chance; `links`: whether links can be cut."""
    several, far, remote = chance.random() < 0.25, only_links or chance.random() < 0.5, chance.random() < 0.6
    victims = ["actor", "actor", "trainer", *["policy worker"] * remote, *["proxies"] * far]
    victim = chance.choice(LINKS) if only_links or (links and far and chance.random() < 0.3) else chance.choice(victims)
    is_stopped = victim not in LINKS and chance.random() < 0.4
    restarts = int(not far and not is_stopped and chance.random() < 0.5)
    return Fault(far, remote, several, victim, is_stopped, chance.random() < 0.5, restarts)


def drawn_again(chance: random.Random) -> Fault:
    """A death by chance, over nodes, after which another process takes the place."""
    several, victim, is_elastic = chance.random() < 0.25, chance.choice(AGAIN), chance.random() < 0.5
    is_apart = not several and chance.random() < 0.5  # policy workers of several policies are where trainers are
    return Fault(True, True, several, victim, False, is_elastic, 1, is_apart)


def layout_of(fault: Fault) -> Layout:
    """Two actors near, or one near and two far; trainers near, and policy workers near or far."""
    acts = ("simulator",) if fault.remote else ("simulator", "agent")
    num_env = 8 if fault.several else 4
    gmis, far = list[GMI](), list[GMI]()

    def add(to: list[GMI], roles: tuple[str, ...], policy: str | None = None) -> None:
        count = num_env if "simulator" in roles else 0
        values = {"id": len(gmis) + len(far), "roles": roles, "num_env": count, "cores": (0,), "policy": policy}
        to.append(GMI.model_validate(values))

    for _ in range(1 if fault.far else 2):
        add(gmis, acts)
    for policy in POLICIES if fault.several else (None,):
        for role in ("agent", "trainer") if fault.remote and not fault.is_apart else ("trainer",):
            add(gmis, (role,), policy)
    for roles in [("agent",)] * fault.is_apart + [acts, acts] * fault.far:
        add(far, roles)
    nodes = {"a": gmis, "b": far} if fault.far else {None: gmis}
    trainers = {gmi.policy: gmi.id for gmi in gmis if gmi.roles == ("trainer",)}
    needs_streams = fault.remote or fault.is_elastic
    return Layout(
        task=TAG if fault.several else "ball_balance",
        template="workers",
        share_cores=True,
        devices=tuple(Device(node=node, kind="cpu", gmis=tuple(some)) for node, some in nodes.items()),
        groups={
            "trainers" if policy is None else f"trainers-{policy}": GmiGroup(members=(gmi,))
            for policy, gmi in trainers.items()
        },
        channels=Channels(max_lag=MAX_LAG),
        streams=Streams(fewest_actors=1 if fault.is_elastic else None) if needs_streams else None,
    )


def config_of(fault: Fault, iterations: int) -> RunConfig:
    """A small learner."""
    return RunConfig(
        iterations=iterations,
        checkpoint_every=EVERY,
        hang_s=HANG_OF_LINKS_S if fault.victim in LINKS else HANG_AGAIN_S if fault.far and fault.restarts else HANG_S,
        writers=(),
        learner=PPOConfig(hidden=(8,), horizon=8, minibatches=1, epochs=1),
        policies=POLICIES if fault.several else {},
        task=TaskSettings(pad=True) if fault.several else TaskSettings(),
    )


def victims_of(fault: Fault, layout: Layout) -> list[int]:
    """The ids of the GMIs that may be the victim; of proxies and links that of the far node's first GMI."""
    if fault.victim == "proxies" or fault.victim in LINKS:
        return [layout.devices_on("b")[0].gmis[0].id]
    role = {"actor": "simulator", "policy worker": "agent", "trainer": "trainer"}[fault.victim]
    found = [gmi.id for gmi in layout.gmis if gmi.roles[0] == role]
    return found[1:] if fault.victim == "actor" and fault.far else found  # a far one
