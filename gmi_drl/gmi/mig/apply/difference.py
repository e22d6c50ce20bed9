"""What must be destroyed and made so that a GPU has the instances that are wanted, and the commands that do it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from gmi_drl.gmi.mig.state import ComputeInstance, GpuInstance, MigState, Part, Shape

NEW = "ID-THAT-IT-TELLS"
"""In a command: the id of the GPU instance that the command before has made."""


@dataclass(frozen=True)
class Difference:
    """Between what is there and what is wanted; each part in the order in which it is done.

    Args:
        parts_to_destroy: Compute instances, each with the id of its GPU instance.
        to_destroy: GPU instances, with all that is left in them.
        to_make: GPU instances with their compute instances.
        parts_to_make: Compute instances in GPU instances that stay, by their ids.
    """

    parts_to_destroy: tuple[tuple[int, ComputeInstance], ...] = ()
    to_destroy: tuple[GpuInstance, ...] = ()
    to_make: tuple[Shape, ...] = ()
    parts_to_make: tuple[tuple[int, Part], ...] = ()

    def __bool__(self) -> bool:
        return any((self.parts_to_destroy, self.to_destroy, self.to_make, self.parts_to_make))

    @property
    def uuids(self) -> list[str]:
        """The MIG devices that go."""
        whole = chain.from_iterable(sorted(instance.uuids) for instance in self.to_destroy)
        return [*(part.uuid for _, part in self.parts_to_destroy), *whole]


def difference(
    state: MigState,
    wanted: Sequence[Shape],
    *,
    goes: Callable[[GpuInstance], bool],
    part_goes: Callable[[ComputeInstance], bool],
) -> Difference:
    """What turns the instances of a GPU into those that are wanted. What agrees already stays as it is.

    Args:
        state: What is there.
        wanted: What shall be there.
        goes: Whether a GPU instance that is not wanted shall go.
        part_goes: Whether a compute instance that is not wanted shall go from a GPU instance that stays.
    """
    by_place = {shape.place: shape for shape in wanted}
    to_destroy: list[GpuInstance] = []
    parts_to_destroy: list[tuple[int, ComputeInstance]] = []
    parts_to_make: list[tuple[int, Part]] = []
    for instance in state.instances:
        shape = by_place.get(instance.place)
        if shape is not None:
            surplus, missing = _compared(instance, shape)
            parts_to_destroy += [(instance.id, part) for part in surplus if part_goes(part)]
            parts_to_make += [(instance.id, part) for part in missing]
        elif goes(instance):
            to_destroy.append(instance)
    there = {instance.place for instance in state.instances}
    return Difference(
        tuple(parts_to_destroy),
        tuple(to_destroy),
        tuple(shape for shape in wanted if shape.place not in there),
        tuple(parts_to_make),
    )


def _compared(instance: GpuInstance, shape: Shape) -> tuple[list[ComputeInstance], list[Part]]:
    """The compute instances that a GPU instance has too many, and those that it lacks."""
    surplus, missing = list(instance.compute), list(shape.compute)
    for part in instance.compute:
        if (part.profile, part.start) in missing:
            missing.remove((part.profile, part.start))
            surplus.remove(part)
    return surplus, missing


def commands(gpu: str, changes: Difference) -> list[str]:
    """The lines by which an administrator makes these changes, and no others (`nvidia-smi mig --help`).

    Args:
        gpu: Its UUID.
        changes: What is to be done.
    """
    mig = f"nvidia-smi mig -i {gpu}"
    whole = [(instance.id, part) for instance in changes.to_destroy for part in instance.compute]
    lines = [f"{mig} -gi {gi} -ci {part.id} -dci" for gi, part in (*changes.parts_to_destroy, *whole)]
    lines += [f"{mig} -gi {instance.id} -dgi" for instance in changes.to_destroy]
    for shape in changes.to_make:
        if [name for name, _ in shape.compute] == [shape.profile]:
            lines.append(f"{mig} -cgi {shape.profile}:{shape.start} -C")
        else:
            lines.append(f"{mig} -cgi {shape.profile}:{shape.start}")
            lines += [
                f"{mig} -gi NEW -cci {_tuple(part)}  # NEW: the id that the line before tells" for part in shape.compute
            ]
    lines += [f"{mig} -gi {gi} -cci {_tuple(part)}" for gi, part in changes.parts_to_make]
    return lines


def mode_command(gpu: str, *, enabled: bool) -> str:
    """The line that turns MIG mode on or off."""
    return f"nvidia-smi -i {gpu} -mig {int(enabled)}"


def _tuple(part: Part) -> str:
    """A profile with its placement, as `-cci` takes it."""
    return "{}:{}".format(*part)
