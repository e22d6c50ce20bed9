"""A cut: how devices are cut. Layouts are searched, measured and compared by it."""

from dataclasses import dataclass, replace

from gmi_drl.layout.backends import PROCESS


@dataclass(frozen=True, order=True, slots=True)
class Cut:
    """Every device of a node is cut alike.

    Args:
        gmis_per_gpu: GMIs of each device, a GPU or a CPU.
        num_env: Environments of each GMI that simulates.
        backend: The backend (`backends.BACKENDS`).
        share_cores: Whether GMIs may have the same cores, if a device has fewer cores than GMIs.
        capped: Whether each GMI is held to an equal part of its device (`GMI.share`), for backends that can do so.
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
        """`way` and GMIs of each device: equal for cuts that differ only in their environments."""
        return self.way, self.gmis_per_gpu

    @property
    def uncut(self) -> "Cut":
        """One GMI per device with as many environments in all."""
        return Cut(1, self.gmis_per_gpu * self.num_env, self.backend)

    def with_num_env(self, num_env: int) -> "Cut":
        """The same division with another number of environments of each GMI."""
        return replace(self, num_env=num_env)

    def of(self, model: str) -> "Cut":
        """The cut of a GPU of this model: the same for all."""
        return self

    @property
    def described(self) -> str:
        """In words, e.g. `2 x 512 environments`, with `by mps` if that is not the usual backend."""
        return f"{self.gmis_per_gpu} x {self.num_env} environments" + _by(self.way)

    def __str__(self) -> str:
        """Short, for lists, e.g. `2 x 512`, `4 x 512 by mps`."""
        return f"{self.gmis_per_gpu} x {self.num_env}" + _by(self.way)


@dataclass(frozen=True, slots=True)
class Cuts:
    """The devices of each model are cut in their own way, all by one backend.

    Args:
        by_model: A cut for each model, by the name that the node gives it.
    """

    by_model: tuple[tuple[str, Cut], ...]

    @property
    def backend(self) -> str:
        """The backend."""
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
        """The cut of a GPU of this model."""
        return dict(self.by_model)[model]

    @property
    def described(self) -> str:
        """In words, e.g. `4 x 512 environments on each A30 and 8 x 1024 environments on each H100 by mps`."""
        parts = (f"{cut.gmis_per_gpu} x {cut.num_env} environments on each {model}" for model, cut in self.by_model)
        return " and ".join(parts) + _by(self.way)

    def __str__(self) -> str:
        """Short, for lists, e.g. `4 x 512 / 8 x 1024 by mps`."""
        return " / ".join(f"{cut.gmis_per_gpu} x {cut.num_env}" for _, cut in self.by_model) + _by(self.way)


AnyCut = Cut | Cuts


def _by(way: str) -> str:
    """E.g. ` by mps`; empty for the usual backend."""
    return "" if way == PROCESS.name else f" by {way}"
