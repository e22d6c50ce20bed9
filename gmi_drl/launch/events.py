"""What those who run GMIs are told meanwhile."""

from dataclasses import dataclass

from gmi_drl.roles.words import Ready, Report, Wrote


@dataclass(frozen=True)
class Heard:
    """A GMI says that it is ready, reports, or has written a shard. Its other words are the launcher's own affair."""

    gmi_id: int
    word: Ready | Report | Wrote


@dataclass(frozen=True)
class Tick:
    """Nothing has come for a moment, or all that came has been told: time to look at the clock and at signals."""


Event = Heard | Tick
