"""What an episode must be to be imported, and the columns that are computed of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.trees import leaves_of

OBS, REWARD = "obs", "reward"
ENDS = ("terminated", "truncated")
RETURN_TO_GO, DISCOUNT = "return_to_go", "discount"
COMPUTED = (RETURN_TO_GO, DISCOUNT)

ADDED = (*ENDS, *COMPUTED)
"""Fields that all stored episodes have."""

_STORED_AS = {torch.float64: torch.float32, torch.float16: torch.float32, torch.bfloat16: torch.float32}


def checked(fields: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The fields of an episode as they are stored, and the observations after its last step.

    Args:
        fields: Arrays `[T, ...]` by name, nested if need be: `{"obs": {"camera": a}}` is the field `obs/camera`.
            `reward` `[T]` is needed. Observations may have T + 1 rows: the last is what follows. `terminated` and
            `truncated` `[T]` say how the episode ended, in its last step; without both it was truncated.

    Returns:
        Tensors `[T, ...]` with `terminated`, `truncated`, `return_to_go` (the sum of rewards from a step on) and
        `discount` (0 in a step that terminated, else 1). Floating-point numbers are float32. Then tensors
        `[...]` of what follows; none if it is not known.

    Raises:
        UsageError: with the first mistake.
    """
    tensors = {name: _tensor(name, value) for name, value in leaves_of(fields).items()}
    if given := [name for name in COMPUTED if name in tensors]:
        raise UsageError(f"{', '.join(given)} cannot be given: an import computes it")
    if REWARD not in tensors:
        raise UsageError(f"it has no reward, only {', '.join(tensors) or 'nothing'}")
    if tensors[REWARD].ndim != 1 or not len(tensors[REWARD]):
        raise UsageError(f"reward is {list(tensors[REWARD].shape)}, not [T] with T of 1 at least")
    steps, following = len(tensors[REWARD]), dict[str, Tensor]()
    tensors[REWARD] = tensors[REWARD].float()
    for name in [name for name in tensors if _is_obs(name)]:
        if tensors[name].ndim and len(tensors[name]) == steps + 1:
            following[name], tensors[name] = tensors[name][-1], tensors[name][:-1]
    if following and (others := [name for name in tensors if _is_obs(name) and name not in following]):
        raise UsageError(f"{', '.join(following)} has {steps + 1} rows, {', '.join(others)} has not")
    for name, tensor in tensors.items():
        if not tensor.ndim or len(tensor) != steps:
            raise UsageError(f"{name} is {list(tensor.shape)}, but reward has {steps} steps")
        _check_finite(name, tensor)
    for name, row in following.items():
        _check_finite(name, row[None], steps)
    tensors |= _ends(tensors, steps)
    to_go = tensors[REWARD].double().flip(0).cumsum(0).flip(0).float()
    tensors[REWARD] = tensors[REWARD].contiguous()
    return tensors | {RETURN_TO_GO: to_go, DISCOUNT: (~tensors[ENDS[0]]).float()}, following


def _is_obs(name: str) -> bool:
    return name == OBS or name.startswith(f"{OBS}/")


def _tensor(name: str, value: Any) -> Tensor:
    if "." in name:
        raise UsageError(f"the field {name!r} has a dot in its name: name it otherwise")
    try:
        tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.asarray(value, order="C"))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is no array of numbers: {error}") from None
    if tensor.is_complex() or tensor.is_quantized:
        raise UsageError(f"{name} has numbers of type {tensor.dtype}, which are not stored")
    return tensor.detach().cpu().to(_STORED_AS.get(tensor.dtype, tensor.dtype))


def _check_finite(name: str, tensor: Tensor, first: int = 0) -> None:
    """Of rows from the step `first` on."""
    if tensor.dtype.is_floating_point and not bool(tensor.isfinite().all()):
        step = first + int((~tensor.isfinite()).nonzero()[0, 0])
        raise UsageError(f"{name} is not finite in step {step}")


def _ends(tensors: Mapping[str, Tensor], steps: int) -> dict[str, Tensor]:
    """`terminated` and `truncated` of all steps."""
    ends = {name: torch.zeros(steps, dtype=torch.bool) for name in ENDS}
    for name in ENDS:
        if name in tensors:
            flags = tensors[name]
            if flags.ndim != 1 or not bool(((flags == 0) | (flags == 1)).all()):
                raise UsageError(f"{name} is {list(flags.shape)} {flags.dtype}, not [{steps}] of truth values")
            ends[name] = flags.bool()
    ended = ends[ENDS[0]] | ends[ENDS[1]]
    if bool(ended[:-1].any()):
        raise UsageError(f"it ends in step {int(ended.nonzero()[0])}, but has {steps} steps")
    if not bool(ended[-1]):
        if any(name in tensors for name in ENDS):
            raise UsageError(f"it has no end: its last step, {steps - 1}, is neither terminated nor truncated")
        ends[ENDS[1]][-1] = True
    return ends
