"""Speeds of the ways by which reductions move vectors between GMIs: the alpha-beta model (Hockney 1994)."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from gmi_drl.files import FileModel


class Speed(FileModel):
    """The speed of one way."""

    round_s: Annotated[float, Field(ge=0)]
    """Latency of a round in seconds (alpha)."""

    bytes_per_second: Annotated[float, Field(gt=0)]
    """Bandwidth of a rank (1 / beta, the paper's BW)."""


Speeds = Mapping[str, Speed]
"""Speeds by way."""

SpeedsByBackend = Mapping[str, Speeds]
"""Speeds by backend (`backends.BACKENDS`), since GMIs of each reduce at other speeds."""

MEMORY, LINK, GLOO, GPU_MEMORY, NCCL = "memory", "link", "gloo", "ipc", "nccl"
"""The ways: shared memory of a host; connections between ranks; gloo; memory of one GPU; NCCL."""

OF_CORES: Speeds = {
    MEMORY: Speed(round_s=2e-6, bytes_per_second=17e9),
    LINK: Speed(round_s=3.3e-5, bytes_per_second=1e9),
    GLOO: Speed(round_s=1.5e-4, bytes_per_second=1.2e9),
}
"""The usual speeds between GMIs on cores, measured on two cores of a Xeon (`profiler.speeds`)."""
