"""The instances that must be destroyed and made on a GPU, and the commands for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from gmi_drl.gmi.mig.state import ComputeInstance, GpuInstance, MigState, Part, Shape


@dataclass(frozen=True)
class Difference:
    """The changes from the existing instances to the wanted ones, in the order in which they are done.

    Args:
        parts_to_destroy: Compute instances, each with the id of its GPU instance.
        to_destroy: GPU instances with their remaining compute instances.
        to_make: GPU instances with their compute instances.
        parts_to_make: Compute instances in GPU instances that stay, each with the id of its GPU instance.
    """

    parts_to_destroy: tuple[tuple[int, ComputeInstance], ...] = ()
    to_destroy: tuple[GpuInstance, ...] = ()
    to_make: tuple[Shape, ...] = ()
    parts_to_make: tuple[tuple[int, Part], ...] = ()

    def __bool__(self) -> bool:
        return any((self.parts_to_destroy, self.to_destroy, self.to_make, self.parts_to_make))

    @property
    def uuids(self) -> list[str]:
        """The UUIDs of the MIG devices to destroy."""
        whole = chain.from_iterable(sorted(instance.uuids) for instance in self.to_destroy)
        return [*(part.uuid for _, part in self.parts_to_destroy), *whole]


def difference(
    state: MigState,
    wanted: Sequence[Shape],
    *,
    goes: Callable[[GpuInstance], bool],
    part_goes: Callable[[ComputeInstance], bool],
) -> Difference:
    """Compute the changes that turn the instances of a GPU into the wanted ones. Wanted ones that exist stay.

    Args:
        state: The existing instances.
        wanted: The wanted instances.
        goes: Whether to destroy a GPU instance that is not wanted.
        part_goes: Whether to destroy a compute instance that is not wanted, in a GPU instance that stays.
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
    """The surplus and the missing compute instances of a GPU instance."""
    surplus, missing = list(instance.compute), list(shape.compute)
    for part in instance.compute:
        if (part.profile, part.start) in missing:
            missing.remove((part.profile, part.start))
            surplus.remove(part)
    return surplus, missing


def commands(gpu: str, changes: Difference) -> list[str]:
    """The commands that make these changes by hand (`nvidia-smi mig --help`).

    Args:
        gpu: The GPU's UUID.
        changes: The changes.
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
                f"{mig} -gi NEW -cci {_tuple(part)}  # NEW: the id printed by the line before" for part in shape.compute
            ]
    lines += [f"{mig} -gi {gi} -cci {_tuple(part)}" for gi, part in changes.parts_to_make]
    return lines


def mode_command(gpu: str, *, enabled: bool) -> str:
    """The command that turns MIG mode on or off."""
    return f"nvidia-smi -i {gpu} -mig {int(enabled)}"


def _tuple(part: Part) -> str:
    """A profile with its placement in the format of `-cci`."""
    return "{}:{}".format(*part)
