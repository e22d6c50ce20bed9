"""Changes the instances of a GPU one by one, and retries while processes or monitors still use them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from gmi_drl.errors import MachineError
from gmi_drl.gmi.mig.apply.difference import Difference
from gmi_drl.gmi.mig.busy import users_of
from gmi_drl.gmi.mig.driver import MigDriver, in_words, is_passing
from gmi_drl.gmi.mig.state import ComputeInstance, GpuInstance, Part, Shape

RETRY_S = 0.1
T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """Retries calls that NVML refuses, until `until` (`time.monotonic`).

    Processes of the previous layout may just be ending, and monitors use a GPU for a moment.
    """

    until: float

    @classmethod
    def of(cls, seconds: float) -> "Patience":
        """Retry for this time from now on."""
        return cls(time.monotonic() + seconds)

    def __call__(self, what: str, call: Callable[[], T]) -> T:
        """Call until it succeeds, and return its result.

        Args:
            what: What the call does, for the message.
            call: A call of NVML.

        Raises:
            MachineError: NVML's last error as a message.
        """
        import pynvml

        while True:
            try:
                return call()
            except pynvml.NVMLError as error:
                if not is_passing(error) or time.monotonic() >= self.until:
                    raise MachineError(f"{what}: {in_words(error)}") from error
            time.sleep(RETRY_S)

    def until_idle(self, driver: MigDriver, what: str, parts: Sequence[ComputeInstance]) -> None:
        """Wait until no process and no claim uses these compute instances.

        Raises:
            MachineError: if one still does; none of the instances has been destroyed then.
        """
        while who := self(f"looking at {what}", lambda: users_of(driver, parts)):
            if time.monotonic() >= self.until:
                raise MachineError(f"{what} of {driver.gpu} is in use by {who}: wait for it, or end it")
            time.sleep(RETRY_S)


def steps(driver: MigDriver, changes: Difference, patience: Patience) -> Iterator[Callable[[], None]]:
    """Yield the changes to a GPU one by one, each a call that raises `MachineError` if it fails."""
    for number, part in changes.parts_to_destroy:
        yield partial(_destroy_part, driver, number, part, patience)
    for instance in changes.to_destroy:
        yield partial(_destroy, driver, instance, patience)
    for shape in changes.to_make:
        yield partial(_make, driver, shape, patience)
    for number, part_wanted in changes.parts_to_make:
        yield partial(_make_part, driver, number, part_wanted, patience)


def _destroy_part(driver: MigDriver, number: int, part: ComputeInstance, patience: Patience) -> None:
    what = f"{part.profile} ({part.uuid})"
    patience.until_idle(driver, what, [part])
    patience(f"destroying {what}", lambda: driver.destroy_part(number, part.id))


def _destroy(driver: MigDriver, instance: GpuInstance, patience: Patience) -> None:
    """Destroy a GPU instance with its compute instances, or, while one of these is in use, nothing."""
    patience.until_idle(driver, f"{instance.profile} at {instance.start}", instance.compute)
    for part in instance.compute:
        _destroy_part(driver, instance.id, part, patience)
    patience(f"destroying {instance.profile} at {instance.start}", lambda: driver.destroy(instance.id))


def _make(driver: MigDriver, shape: Shape, patience: Patience) -> None:
    what = f"making {shape.profile} at {shape.start} of {driver.gpu}"
    number = patience(what, lambda: driver.make(shape.profile, shape.start))
    for part in shape.compute:
        _make_part(driver, number, part, patience)


def _make_part(driver: MigDriver, number: int, part: Part, patience: Patience) -> None:
    profile, start = part
    patience(f"making {profile} on {driver.gpu}", lambda: driver.make_part(number, profile, start))
