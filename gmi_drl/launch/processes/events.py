"""What callers of `GMIProcesses` are told while the GMIs run."""

from dataclasses import dataclass

from gmi_drl.roles.launcher.protocol import Holds, Ready, Report, Wrote


@dataclass(frozen=True)
class GMIMessage:
    """A message for the caller: the GMI is ready, reports a row, holds, or has written a shard."""

    gmi_id: int
    message: Ready | Report | Holds | Wrote


@dataclass(frozen=True)
class Tick:
    """No message is left: time to check deadlines and signals."""


Event = GMIMessage | Tick
