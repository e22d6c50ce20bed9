"""How fast vectors go between GMIs, by the ways that reductions take: the alpha-beta model (Hockney 1994)."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from gmi_drl.files import FileModel


class Speed(FileModel):
    """Of one way.

    `round_s` is what a round takes however little is moved (alpha), in seconds; `bytes_per_second` is what a rank moves
    when there is much (1 / beta, the paper's BW).
    """

    round_s: Annotated[float, Field(ge=0)]
    bytes_per_second: Annotated[float, Field(gt=0)]


Speeds = Mapping[str, Speed]
"""By way."""

SpeedsByBackend = Mapping[str, Speeds]
"""By what cuts the devices into GMIs (`backends.BACKENDS`), which decides how fast they reduce."""

MEMORY, LINK, GLOO, GPU_MEMORY, NCCL = "memory", "link", "gloo", "ipc", "nccl"
"""Shared memory of a host; connections between any two ranks; gloo's own; memory of one GPU; NCCL's own."""

OF_CORES: Speeds = {
    MEMORY: Speed(round_s=2e-6, bytes_per_second=17e9),
    LINK: Speed(round_s=3.3e-5, bytes_per_second=1e9),
    GLOO: Speed(round_s=1.5e-4, bytes_per_second=1.2e9),
}
"""Between GMIs of cores, as measured on two of a Xeon (`profiler.speeds`)."""
