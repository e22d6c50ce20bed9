"""The phases of an iteration: the one table for the clock, metrics, profiles, tables and plots."""

from dataclasses import dataclass
from typing import Literal

PhaseName = Literal["sim_s", "act_s", "learn_s", "sync_s"]


@dataclass(frozen=True)
class Phase:
    """A part of an iteration of a GMI.

    Args:
        name: Key of its seconds in rows of metrics and profile files.
        label: For users.
        symbol: In the paper (equation 3); empty if it has none.
    """

    name: PhaseName
    label: str
    symbol: str = ""


SIMULATE = Phase("sim_s", "simulate", "T_s")
ACT = Phase("act_s", "act", "T_a")
LEARN = Phase("learn_s", "learn", "T_t")
WAIT = Phase("sync_s", "wait")
"""Waiting for other GMIs anywhere in the iteration. The other phases do not include it."""

PHASES = (SIMULATE, ACT, LEARN, WAIT)
PHASE_NAMES: tuple[str, ...] = tuple(phase.name for phase in PHASES)
