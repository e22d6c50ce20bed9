"""CUDA_VISIBLE_DEVICES, parsed as CUDA parses it. Pure functions.

CUDA Programming Guide, "CUDA Environment Variables": the value is a list of indices (those of nvidia-smi; here of the
GPUs that this process may open), of UUIDs as `nvidia-smi -L` prints them, or of unambiguous prefixes of UUIDs. The
first invalid entry hides itself and all that follow. An empty value shows nothing. Where the guide says nothing, this
follows torch (`torch.cuda._parse_visible_devices`): a device that is named twice hides all; all entries must be of the
first entry's kind (index, GPU or MIG device); letters after a number are ignored. MIG devices are named by UUID, or as
by drivers before 470: `MIG-GPU-UUID/GPU instance/compute instance` (MIG User Guide, "CUDA Visible Devices").
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from gmi_drl.errors import UsageError

Named = TypeVar("Named")

VARIABLE = "CUDA_VISIBLE_DEVICES"


class Choice(NamedTuple):
    """The UUIDs of the visible devices in order, and a note on an invalid entry; the note is empty if there is none."""

    names: tuple[str, ...]
    note: str = ""


def choose(text: str | None, gpus: Sequence[str], mig: Mapping[str, str]) -> Choice:
    """Parse a value of the variable.

    Args:
        text: The value; None if the variable is not set, which shows every GPU.
        gpus: The UUIDs of GPUs, in the order of their indices.
        mig: The UUIDs of MIG devices, by each of their names.

    Raises:
        UsageError: if a device is named twice: CUDA would show none.
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
    """The device whose name is exactly `word`, else the only one found; None if there are none or several."""
    if word in exact:
        return exact[word]
    return next(iter(found)) if len(found) == 1 else None


def _note(word: str, words: Sequence[str], count: int) -> str:
    if word in ("", "-1", "NoDevFiles"):  # the last is what Slurm writes for none
        return ""
    hidden = " and what follows it" if word != words[-1] else ""
    return f"{VARIABLE} names {word!r}, which is none of this machine's {count} GPUs: CUDA hides it{hidden}"
