"""What the launcher hears of its GMIs."""

from dataclasses import dataclass

from gmi_drl.roles.line import Message


@dataclass(frozen=True)
class Report:
    """A row of numbers that a GMI has sent."""

    gmi_id: int
    row: Message


@dataclass(frozen=True)
class Tick:
    """Nothing has come for a moment, or all that came has been told: time to look at the clock and at signals."""


Event = Report | Tick
