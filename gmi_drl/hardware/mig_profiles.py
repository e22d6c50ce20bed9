"""The MIG profiles of GPUs, as NVIDIA documents them and its driver prints them. Pure data.

Names: NVIDIA Multi-Instance GPU User Guide, "Supported MIG Profiles". Profiles with graphics (`+gfx`), with all media
engines (`+me.all`) or without any (`-me`) are left out: nothing here uses these engines.

Placements: `nvidia-smi mig -lgipp`, which the guide shows for the A100 ("Getting Started with MIG"); H100 SXM, H100
NVL and GH200 print the same. H100 PCIe, H200, B200 and GB200 are assumed to: the guide has the same number of each
profile.

SMs and memory: `nvidia-smi mig -lgip`; None if no output of it was found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class MigProfile:
    """A kind of GPU instance.

    Args:
        name: NVIDIA's name, e.g. "3g.20gb"; `+me` has the media extensions.
        starts: Memory slices at which it can start.
        size: Memory slices that it takes.
        sms: Its SMs, as CUDA finds them. They do not follow from the name: seven 1g of an H100 have 112 of 132, its 3g
            has 60, its 1g of double memory 26, and on an H100 PCIe all of them have fewer.
        memory_gib: Its memory, less than the name says.
    """

    name: str
    starts: tuple[int, ...]
    size: int
    sms: int | None = None
    memory_gib: float | None = None

    @property
    def slices(self) -> int:
        """Compute slices: the g of its name. Of a compute instance (`1c.3g.20gb`) those of its GPU instance."""
        return int(self.name.rpartition("c.")[2].partition("g")[0])

    @property
    def media(self) -> bool:
        """Whether it has the media extensions, which only one instance of a GPU can have."""
        return self.name.endswith("+me")


Shapes = Sequence[tuple[Sequence[int], int]]
"""The starts and the size of each profile."""

EIGHTHS: Shapes = ((range(7), 1), (range(0, 8, 2), 2), (range(0, 6, 2), 2), ((0, 4), 4), ((0,), 4), ((0,), 8))
"""1g, 1g of double memory, 2g, 3g, 4g and 7g, on eight memory slices."""
QUARTERS: Shapes = ((range(4), 1), ((0, 2), 2), ((0,), 4))
"""1g, 2g and 4g, on four."""
TWELFTHS: Shapes = ((range(0, 12, 3), 3), ((0, 6), 6), ((0,), 12))
"""1g, 2g and 4g, on twelve."""


def _profiles(
    shapes: Shapes, names: str, sms: Sequence[int | None], gib: Sequence[float | None], media: int = 1
) -> tuple[MigProfile, ...]:
    """Profiles of these names, and the first `media` of them with media extensions."""
    rows = zip(names.split(), shapes, sms, gib, strict=True)
    plain = [MigProfile(name, tuple(starts), size, count, memory) for name, (starts, size), count, memory in rows]
    return (*plain, *(replace(profile, name=f"{profile.name}+me") for profile in plain[:media]))


_GA100 = (14, 14, 28, 42, 56, 98)
_GH100 = (16, 26, 32, 60, 64, 132)
_OF_80_GB = "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"
_H100_80_GIB = (9.75, 19.62, 19.62, 39.5, 39.5, 79.25)
_UNKNOWN = (None,) * 6

A30 = _profiles(QUARTERS, "1g.6gb 2g.12gb 4g.24gb", (14, 28, 56), (5.81, 11.69, 23.44), media=2)
A100_40 = _profiles(
    EIGHTHS, "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb", _GA100, (4.75, 9.62, 9.62, 19.5, 19.5, 39.25)
)
A100_80 = _profiles(EIGHTHS, _OF_80_GB, _GA100, (9.5, 19.5, 19.5, 39.25, 39.25, 78.5))
H100_SXM = _profiles(EIGHTHS, _OF_80_GB, _GH100, _H100_80_GIB)
H100_PCIE = _profiles(EIGHTHS, _OF_80_GB, (14, 14, 30, 46, 62, 114), _H100_80_GIB)
H100_NVL = _profiles(
    EIGHTHS, "1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb", _GH100, (10.75, 21.62, 21.62, 46.38, 46.38, 93.12)
)
GH200_96 = _profiles(EIGHTHS, "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb", _GH100, _UNKNOWN)
# The memory of 3g.71gb is as CUDA reports it.
H200 = _profiles(
    EIGHTHS, "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb", _GH100, (16.0, None, 32.5, 69.75, None, 140.0)
)
# B200's 1g.23gb has 18 SMs and 20.5 GiB, as CUDA reports them (OpenXLA, target_config/specs/b200_mig.txtpb).
B200 = _profiles(
    EIGHTHS,
    "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    (18, None, None, None, None, None),
    (20.5, None, None, None, None, None),
)
GB200 = _profiles(EIGHTHS, "1g.23gb 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb", _UNKNOWN, _UNKNOWN)
RTX_PRO_6000 = _profiles(TWELFTHS, "1g.24gb 2g.48gb 4g.96gb", (46, 94, 188), (23.62, 47.38, 95.0))
