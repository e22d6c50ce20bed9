"""The form in which stages of `gpu_day.py` are written down."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A stage whose commands have placeholders for sizes.

    Args:
        name: One word.
        about: A short description.
        gpu_s: Expected seconds on a GPU beyond those of a rehearsal on cores: for contexts, graphs, longer
            measurements, and GMIs that do not fit on two cores. A guess where no GPU has run it.
        commands: Command lines with names of sizes in braces.
    """

    name: str
    about: str
    gpu_s: float
    commands: tuple[str, ...]
