"""How devices are cut: the key by which layouts are searched, measured and compared."""

from dataclasses import dataclass, replace

from gmi_drl.layout.backends import PROCESS


@dataclass(frozen=True, order=True, slots=True)
class Cut:
    """Every device of a node is cut alike.

    Args:
        gmis_per_gpu: GMIs of each device, be it a GPU or a CPU.
        num_env: Environments of each GMI that simulates.
        backend: By which (`backends.BACKENDS`).
        share_cores: Whether GMIs may have the same cores, where a device has fewer cores than GMIs.
        capped: Whether each GMI may use no more than an equal part of its device (`GMI.share`), for backends that hold
            GMIs to it.
    """

    gmis_per_gpu: int
    num_env: int
    backend: str = PROCESS.name
    share_cores: bool = False
    capped: bool = False

    @property
    def way(self) -> str:
        """The backend and whether it caps the GMIs, in words: `mps`, `capped mps`."""
        return f"capped {self.backend}" if self.capped else self.backend

    @property
    def division(self) -> tuple[str, int]:
        """Way and GMIs of each device: what cuts have in common that differ in their environments alone."""
        return self.way, self.gmis_per_gpu

    @property
    def uncut(self) -> "Cut":
        """One GMI per device with as many environments in all."""
        return Cut(1, self.gmis_per_gpu * self.num_env, self.backend)

    def with_num_env(self, num_env: int) -> "Cut":
        """The same division with another number of environments of each GMI."""
        return replace(self, num_env=num_env)

    def of(self, model: str) -> "Cut":
        """That of a GPU of this model: all have the same."""
        return self

    @property
    def described(self) -> str:
        """In words, e.g. `2 x 512 environments`, and `… by mps` where that is not the usual backend."""
        return f"{self.gmis_per_gpu} x {self.num_env} environments" + _by(self.way)

    def __str__(self) -> str:
        """As people read it in a list, e.g. `2 x 512`, `4 x 512 by mps`."""
        return f"{self.gmis_per_gpu} x {self.num_env}" + _by(self.way)


@dataclass(frozen=True, slots=True)
class Cuts:
    """Devices are cut by their models, as the node names these: all by one backend.

    Args:
        by_model: A cut for each.
    """

    by_model: tuple[tuple[str, Cut], ...]

    @property
    def backend(self) -> str:
        """By which."""
        return self.by_model[0][1].backend

    @property
    def way(self) -> str:
        """The backend and whether it caps the GMIs, in words; the same for all models."""
        return self.by_model[0][1].way

    @property
    def share_cores(self) -> bool:
        """Whether GMIs may have the same cores."""
        return any(cut.share_cores for _, cut in self.by_model)

    def of(self, model: str) -> Cut:
        """That of a GPU of this model."""
        return dict(self.by_model)[model]

    @property
    def described(self) -> str:
        """In words, e.g. `4 x 512 environments on each A30 and 8 x 1024 environments on each H100 by mps`."""
        parts = (f"{cut.gmis_per_gpu} x {cut.num_env} environments on each {model}" for model, cut in self.by_model)
        return " and ".join(parts) + _by(self.way)

    def __str__(self) -> str:
        """As people read it in a list, e.g. `4 x 512 / 8 x 1024 by mps`."""
        return " / ".join(f"{cut.gmis_per_gpu} x {cut.num_env}" for _, cut in self.by_model) + _by(self.way)


AnyCut = Cut | Cuts


def _by(way: str) -> str:
    """Nothing for the usual backend."""
    return "" if way == PROCESS.name else f" by {way}"
