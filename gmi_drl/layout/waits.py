"""Who waits for whom, and how long: one table for all waits of GMIs for each other.

A wait is for something that another GMI does. It ends in an error at once when that one's process ends, and when it
has been silent for some times `hang_s`. How many times follows from one rule: *who may itself wait for others is waited
for longer than it waits*. So of all who wait for a GMI that hangs the first to give up is one that waits for it
first-hand, and it names that one.

| who waits | for whom | times `hang_s` |
|---|---|---|
| an agent on a GMI of its own | its simulators (`FIRST_HAND`) | 1 |
| a trainer | the agent whose rollout is due in its channels, or its first one for new parameters (`experience`) | 1 |
| a trainer | the agent that it asks, which may wait for simulators (`experience`) | 2 |
| a rank of a group | the other ranks (`rank`) | one more than a trainer for experience: 1, 2 or 3 |
| an agent, or who stands in for it | its trainers (`trainer`) | one more than these wait at most |
| a simulator, an agent on another host | their agent; who stands in for it (`behind`) | one more than that |
| the launcher | all GMIs together (`launcher_s`) | as often as the longest of these, and 10 s |

A wait begins anew whenever who is waited for shows that it is not silent, but waits for somebody slow. Trainers count
what they hear of agents in their table of the channels: agents, and those who stand in for some, look there, and pass
it on to agents of other hosts. They tell the ranks of their groups (`membership.Keepalives`), which pass it on to their
own agents, and the launcher. Where roles ask each other by messages, in TDG and TDG_EX, each GMI writes down when the
last message came of which it knows (`Messages.recv_while_active`), and who waits for it looks there. A GMI that is
slow is only reported.

Worlds that load, and kernels that are compiled meanwhile, have `LOADING_S` instead.
"""

from dataclasses import dataclass

from gmi_drl.layout.layout import Layout

FIRST_HAND = 1
"""For who waits for nobody."""

LOADING_S = 1200.0
"""For who may load worlds, and compile."""

LAUNCHER_S = 10.0
"""More than its GMIs the launcher waits: who misses another shall name it first."""


@dataclass(frozen=True)
class Waits:
    """How many times `hang_s` each waits, see the table.

    Attributes:
        experience: A trainer for an agent; 0 where trainers have worlds of their own.
        rank: A rank of a group for the others.
        trainer: An agent for its trainers.
        behind: Who stands behind an agent, for it.
        longest: Any of those that there are.
    """

    experience: int
    rank: int
    trainer: int
    behind: int
    longest: int

    def launcher_s(self, hang_s: float) -> float:
        """Seconds that a launcher waits for a word of any GMI."""
        return self.longest * hang_s + LAUNCHER_S


def waits_of(layout: Layout) -> Waits:
    """Those of a layout's GMIs."""
    agents, trainers = layout.with_role("agent"), layout.with_role("trainer")
    asks = bool(agents) and any("agent" not in gmi.roles for gmi in trainers)
    if layout.channels is not None:
        return waits_by_channels(len(trainers))
    experience = 1 + FIRST_HAND if asks else 0
    rank = experience + 1
    trainer = max(rank if len(trainers) > 1 else experience, FIRST_HAND) + asks
    behind = trainer + 1
    is_behind = any("agent" not in gmi.roles for gmi in layout.with_role("simulator"))
    return Waits(experience, rank, trainer, behind, behind if is_behind else trainer if asks else rank)


def waits_by_channels(trainers: int) -> Waits:
    """Those of so many trainers, of all pools, and their agents."""
    rank = FIRST_HAND + 1
    trainer = (rank if trainers > 1 else FIRST_HAND) + 1
    return Waits(FIRST_HAND, rank, trainer, trainer + 1, trainer + 1)
