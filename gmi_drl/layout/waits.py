"""The deadlines of all waits of GMIs for each other, in one table.

A GMI waits for something that another GMI does. The wait fails at once when that GMI's process ends, and when it has
been silent for a multiple of `hang_s`. The multiple follows from one rule: *a wait for a GMI that may itself be waiting
is longer than the wait of that GMI*. So if a GMI hangs, the first to give up is one that waits for it directly, and its
error names the right GMI.

| who waits | for whom | multiple of `hang_s` |
|---|---|---|
| an agent on a GMI of its own | its simulators (`FIRST_HAND`) | 1 |
| a trainer | the agent whose rollout is due in its channels, or its first one for new parameters (`experience`) | 1 |
| a trainer | the agent that it requests rollouts from, which may wait for simulators (`experience`) | 2 |
| an actor | its policy worker (`FIRST_HAND`) | 1 |
| the rank 0 of one of several policies, which holds (`Hold`) | the launcher (`FIRST_HAND`) | 1 |
| a trainer | an actor that may wait for its policy worker (`experience`) | 2 |
| a trainer | an actor that waits for trainers of another policy | `experience`, then `behind` |
| a rank of a group | the other ranks (`rank`) | one more than a trainer for experience: 1, 2 or 3 |
| an agent, or its proxy | its trainers (`trainer`) | one more than the longest wait of these |
| a simulator; an agent on another host | its agent; its proxy (`behind`) | one more than that |
| a policy worker | its actors, and its first version (`behind`) | the same |
| the launcher | all GMIs together (`launcher_s`) | the longest of these, plus 10 s |

A wait starts again whenever the awaited GMI shows that it is alive and itself waits for a slow one. Trainers count the
messages of agents in a table of the channels; agents and proxies read it there, and proxies forward it to agents on
other hosts. Trainers also send keepalives to the ranks of their group (`membership.Keepalives`), which forward them to
their agents, and to the launcher. In TDG and TDG_EX, whose roles exchange messages, each GMI records the time of the
last message that it knows of (`Messages.recv_while_active`), and GMIs that wait for it read that time. A slow GMI is
only reported.

While environments load and kernels are compiled, the deadline is `LOADING_S`.
"""

from dataclasses import dataclass

from gmi_drl.layout.layout import Layout
from gmi_drl.layout.servers import actors_without_agent

FIRST_HAND = 1
"""The multiple for a GMI that waits for no other."""

LOADING_S = 1200.0
"""Seconds for a GMI that may load environments and compile kernels."""

LAUNCHER_S = 10.0
"""Seconds that the launcher waits longer than its GMIs, so that their error, which names the hung GMI, comes first."""


@dataclass(frozen=True)
class Waits:
    """The multiples of `hang_s` in the table above.

    Attributes:
        experience: A trainer waits for an agent; 0 if trainers have their own environments.
        rank: A rank of a group waits for the others.
        trainer: An agent waits for its trainers.
        behind: A simulator waits for its agent, or an agent on another host for its proxy.
        longest: The longest of those in this layout.
    """

    experience: int
    rank: int
    trainer: int
    behind: int
    longest: int

    def launcher_s(self, hang_s: float) -> float:
        """Seconds that a launcher waits for a message of any GMI."""
        return self.longest * hang_s + LAUNCHER_S


def waits_of(layout: Layout) -> Waits:
    """The multiples for the GMIs of a layout."""
    agents, trainers = layout.with_role("agent"), layout.with_role("trainer")
    requests = bool(agents) and any("agent" not in gmi.roles for gmi in trainers)
    if layout.channels is not None:
        return waits_by_channels(len(trainers), are_served=bool(actors_without_agent(layout)))
    experience = 1 + FIRST_HAND if requests else 0
    rank = experience + 1
    trainer = max(rank if len(trainers) > 1 else experience, FIRST_HAND) + requests
    behind = trainer + 1
    is_behind = any("agent" not in gmi.roles for gmi in layout.with_role("simulator"))
    return Waits(experience, rank, trainer, behind, behind if is_behind else trainer if requests else rank)


def waits_by_channels(trainers: int, *, are_served: bool = False) -> Waits:
    """The multiples for agents and trainers with channels.

    Args:
        trainers: Their number in all pools.
        are_served: Whether actors wait for policy workers.
    """
    experience = FIRST_HAND + are_served
    rank = experience + 1
    trainer = (rank if trainers > 1 else experience) + 1
    return Waits(experience, rank, trainer, trainer + 1, trainer + 1)
