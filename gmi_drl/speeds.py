"""How fast vectors go between GMIs, by the ways that reductions take: the alpha-beta model (Hockney 1994)."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Speed:
    """Of one way.

    Args:
        round_s: What a round takes however little is moved: alpha.
        bytes_per_second: What each rank moves when there is much: 1 / beta, the paper's BW.
    """

    round_s: float
    bytes_per_second: float


Speeds = Mapping[str, Speed]
"""By way."""

MEMORY, LINK, GLOO = "memory", "link", "gloo"
"""Shared memory of a host; connections between any two ranks; gloo's own."""

OF_CORES: Speeds = {MEMORY: Speed(4e-6, 16e9), LINK: Speed(6e-5, 1.5e9), GLOO: Speed(1.5e-3, 1.4e9)}
"""Between GMIs of cores, measured on two of one host (`gmi-drl bench reduction_1536k`)."""
