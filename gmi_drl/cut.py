"""How one device is cut: the key by which layouts are searched, measured and compared."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True)
class Cut:
    """Every device of a node is cut alike.

    Args:
        gmis_per_gpu: GMIs of each device, be it a GPU or a CPU.
        num_env: Environments of each GMI.
    """

    gmis_per_gpu: int
    num_env: int

    @property
    def uncut(self) -> "Cut":
        """One GMI per device with as many environments in all."""
        return Cut(1, self.gmis_per_gpu * self.num_env)

    def __str__(self) -> str:
        """As people read it, e.g. `2 x 512`."""
        return f"{self.gmis_per_gpu} x {self.num_env}"
