"""The placements of a storage by name."""

from pathlib import Path
from typing import Any

import torch

from gmi_drl.errors import UsageError, did_you_mean
from gmi_drl.registry import class_at
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.storage.base import FEWEST_BLOCKS, Storage

PLACEMENTS = {
    "cpu": "gmi_drl.replay.storage.base:Storage",
    "shared": "gmi_drl.replay.storage.shared:SharedStorage",
    "pinned": "gmi_drl.replay.storage.pinned:PinnedStorage",
    "device": "gmi_drl.replay.storage.device:DeviceStorage",
    "file": "gmi_drl.replay.storage.file:FileStorage",
}
"""Where the class of each placement is."""

CODED = {
    "cpu": "gmi_drl.replay.storage.codec:CodecStorage",
    "file": "gmi_drl.replay.storage.codec:CodecFileStorage",
}
"""Where the class of each placement is, if steps are compressed."""

CODECS = ("none", "zlib", "zlib-differences")


def make_storage(
    signature: Signature,
    steps: int,
    *,
    placement: str = "cpu",
    longest: int = 1,
    device: torch.device | str = "cpu",
    path: Path | None = None,
    codec: str = "none",
    fewest_blocks: int = FEWEST_BLOCKS,
    block_bytes: int | None = None,
    update_size: int | None = None,
) -> Storage:
    """Make a storage.

    Args:
        signature: Of a step.
        steps: Least number of steps.
        placement: A name of `PLACEMENTS`.
        longest: Steps of the longest item.
        device: Where gathered rows go; of `device` also where the steps lie.
        path: Of the file, with the placement `file` only.
        codec: A name of `CODECS`; other than `none` with the placements `cpu` and `file` only.
        fewest_blocks: As of `Storage`.
        block_bytes: As of `Storage`; with the placements `cpu` and `shared` only, without a codec.
        update_size: As in `DeviceStorage`; with the placement `device` only.

    Raises:
        UsageError: if a name is unknown, or an option does not go with the placement.
        MachineError: if there is not as much memory or room on the disk.
    """
    if placement not in PLACEMENTS:
        raise UsageError(f"there is no placement {placement!r}{did_you_mean(placement, PLACEMENTS)}")
    if codec not in CODECS:
        raise UsageError(f"there is no codec {codec!r}{did_you_mean(codec, CODECS)}")
    if (path is not None) != (placement == "file"):
        raise UsageError(f"a path goes with the placement 'file', and only with it (placement {placement!r})")
    if update_size is not None and placement != "device":
        raise UsageError(f"update_size goes with the placement 'device', not {placement!r}")
    if codec != "none" and placement not in ("cpu", "file"):
        raise UsageError(f"the codec {codec!r} goes with the placements 'cpu' and 'file', not {placement!r}")
    if placement not in ("device", "pinned") and torch.device(device).type != "cpu":
        raise UsageError(f"the placement {placement!r} gathers on the CPU, not {device}: take 'pinned' or 'device'")
    if block_bytes is not None and (codec != "none" or placement not in ("cpu", "shared")):
        raise UsageError(f"block_bytes goes with 'cpu' and 'shared' without a codec, not {placement!r} with {codec!r}")
    options: dict[str, Any] = {"longest": longest, "device": device, "fewest_blocks": fewest_blocks}
    if block_bytes is not None:
        options["block_bytes"] = block_bytes
    if path is not None:
        options["path"] = path
    if codec != "none":
        options["differences"] = codec == "zlib-differences"
        return class_at(CODED[placement])(signature, steps, **options)  # type: ignore[no-any-return]
    if update_size is not None:
        options["update_size"] = update_size
    return class_at(PLACEMENTS[placement])(signature, steps, **options)  # type: ignore[no-any-return]
