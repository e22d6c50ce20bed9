"""CUDA_VISIBLE_DEVICES, read as CUDA reads it. Pure.

CUDA Programming Guide, "CUDA Environment Variables": a sequence of indices (of nvidia-smi, here those that this process
may open), or of UUIDs as `nvidia-smi -L` prints them, or their beginnings if these say which; the first that is invalid
hides itself and all that follow. An empty one shows nothing. What the guide leaves open is as torch has it
(`torch.cuda._parse_visible_devices`): a device that is named twice hides all, the first entry says whether indices,
GPUs or MIG devices follow, another kind is invalid there, and a number may have letters behind it. MIG devices are
named by UUID, or as drivers before 470 do: `MIG-GPU-UUID/GPU instance/compute instance` (MIG User Guide, "CUDA Visible
Devices").
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from gmi_drl.errors import UsageError

Named = TypeVar("Named")

VARIABLE = "CUDA_VISIBLE_DEVICES"


class Choice(NamedTuple):
    """Names of devices that are visible, in their order, and what else the variable said: empty if all is well."""

    names: tuple[str, ...]
    note: str = ""


def choose(text: str | None, gpus: Sequence[str], mig: Mapping[str, str]) -> Choice:
    """What a value of the variable shows.

    Args:
        text: Its value; None if it is not set, which shows every GPU.
        gpus: The UUIDs of GPUs, in the order of their indices.
        mig: The UUIDs of MIG devices, by all names that they have.

    Raises:
        UsageError: if a device is named twice, as CUDA shows none then, which nobody wants.
    """
    if text is None:
        return Choice(tuple(gpus))
    words = [word.strip() for word in text.split(",")]
    chosen: list[str] = []
    for word in words:
        found = _find(word, words[0], gpus, mig)
        if found is None:
            return Choice(tuple(chosen), _note(word, words, len(gpus)))
        if found in chosen:
            raise UsageError(f"{VARIABLE}={text} names {found} twice, and CUDA shows no GPU then: name it once")
        chosen.append(found)
    return Choice(tuple(chosen))


def _find(word: str, first: str, gpus: Sequence[str], mig: Mapping[str, str]) -> str | None:
    if first.startswith("MIG-"):
        return _only(
            {uuid for name, uuid in mig.items() if word.startswith("MIG-") and name.startswith(word)}, mig, word
        )
    if first.startswith("GPU-"):
        return _only({uuid for uuid in gpus if word.startswith("GPU-") and uuid.startswith(word)}, {}, word)
    number = re.match(r"\+?\d+", word)
    return gpus[int(number[0])] if number and int(number[0]) < len(gpus) else None


def _only(found: set[str], exact: Mapping[str, str], word: str) -> str | None:
    """The one that was found, or the one that has the whole name."""
    if word in exact:
        return exact[word]
    return next(iter(found)) if len(found) == 1 else None


def _note(word: str, words: Sequence[str], count: int) -> str:
    if word in ("", "-1", "NoDevFiles"):  # the last is what Slurm writes for none
        return ""
    hidden = " and what follows it" if word != words[-1] else ""
    return f"{VARIABLE} names {word!r}, which is none of this machine's {count} GPUs: CUDA hides it{hidden}"
