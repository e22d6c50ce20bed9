"""The phases of an iteration: the one table that the clock, metrics, profiles, tables and plots read."""

from dataclasses import dataclass
from typing import Literal

PhaseName = Literal["sim_s", "act_s", "learn_s", "sync_s"]


@dataclass(frozen=True)
class Phase:
    """What a GMI does for a part of an iteration.

    Args:
        name: Its seconds, as rows of metrics and profile files have them.
        label: As people read it.
        symbol: The paper's (equation 3); empty where it has none.
    """

    name: PhaseName
    label: str
    symbol: str = ""


SIMULATE = Phase("sim_s", "simulate", "T_s")
ACT = Phase("act_s", "act", "T_a")
LEARN = Phase("learn_s", "learn", "T_t")
WAIT = Phase("sync_s", "wait")
"""For other GMIs, wherever in the iteration; the other three are without it."""

PHASES = (SIMULATE, ACT, LEARN, WAIT)
PHASE_NAMES: tuple[str, ...] = tuple(phase.name for phase in PHASES)
