"""One choice of a plan: a measured point, with what it predicts for all GMIs."""

from dataclasses import dataclass

from gmi_drl.layout.cut import AnyCut, Cuts
from gmi_drl.scheduler.profile import ProfilePoint


@dataclass(frozen=True)
class Candidate:
    """A runnable point, with the predicted speed of all GMIs on all devices.

    Args:
        point: The measured point.
        projected: Steps per second if all GMIs run as this one did: the paper's `estimate`.
        expected: `projected` with the communication of equations 2 and 3.
        confirmed: Measured steps per second of all GMIs together; None if they did not run.
        efficiency: What a step teaches in an update of this size, from 0 to 1 (`NoiseScale`); None if not known.
        by_model: The point of each GPU model, if models are cut in different ways. `point` is then the slowest.
        from_run: Whether `point` is from the run that confirmed it. Then `expected` is no prediction.
    """

    point: ProfilePoint
    projected: float
    expected: float
    confirmed: float | None = None
    efficiency: float | None = None
    by_model: tuple[tuple[str, ProfilePoint], ...] = ()
    from_run: bool = False

    @property
    def cut(self) -> AnyCut:
        """The cut of all devices: a `Cut`, or `Cuts` if each GPU model is cut differently."""
        return Cuts(tuple((model, point.cut) for model, point in self.by_model)) if self.by_model else self.point.cut

    @property
    def points(self) -> tuple[ProfilePoint, ...]:
        """The point of all devices, or the point of each model."""
        return tuple(point for _, point in self.by_model) or (self.point,)

    @property
    def is_solo(self) -> bool:
        """Whether each device has one GMI."""
        return all(point.gmis_per_gpu == 1 for point in self.points)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the largest GMI on its device."""
        return max(point.memory_bytes for point in self.points)

    @property
    def steps_per_second(self) -> float:
        """The confirmed speed, or else the predicted one."""
        return self.expected if self.confirmed is None else self.confirmed

    @property
    def error(self) -> float | None:
        """The relative error of equation 2 or 3, e.g. 0.05 for 5 % too fast; None if not predicted or not run."""
        return None if self.from_run or not self.confirmed else self.expected / self.confirmed - 1

    @property
    def useful_steps_per_second(self) -> float | None:
        """Steps per second times efficiency; None if that is not known."""
        return None if self.efficiency is None else self.efficiency * self.steps_per_second
