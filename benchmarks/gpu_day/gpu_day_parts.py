"""What a stage of `gpu_day.py` is written as."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A stage before its sizes are known.

    Args:
        name: In one word.
        about: In a few.
        gpu_s: Seconds that a GPU is expected to need for it, beyond what a rehearsal on cores takes: contexts, graphs,
            windows of measurements, GMIs for which two cores have no room. Nobody has measured them.
        commands: With sizes in braces.
    """

    name: str
    about: str
    gpu_s: float
    commands: tuple[str, ...]
