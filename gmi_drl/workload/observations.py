"""Observations as tensors: their parts as views, and packed rows of several parts."""

from collections.abc import Mapping

import torch
from torch import Tensor

from gmi_drl.workload.spaces import Observation


def dtype_of(observation: Observation) -> torch.dtype:
    """The type of its tensor."""
    return torch.float32 if observation.dtype == "float32" else torch.uint8


def parts_of(obs: Tensor | Mapping[str, Tensor], observation: Observation) -> Mapping[str, Tensor]:
    """The parts of observations `[..., *observation.shape]` by name, each a view `[..., *shape]`.

    Parts by name, which an exported policy gets one by one, are returned as they are.
    """
    if not isinstance(obs, Tensor):
        return obs
    if len(observation.parts) == 1:
        return {observation.parts[0].name: obs}
    rows = {name: obs[..., place] for name, place in observation.slices.items()}
    if observation.is_packed:
        rows = {
            p.name: rows[p.name].view(torch.float32) if p.kind == "vector" else rows[p.name] for p in observation.parts
        }
    return {part.name: rows[part.name].view(*obs.shape[:-1], *part.shape) for part in observation.parts}


def pack(parts: Mapping[str, Tensor], observation: Observation) -> Tensor:
    """One tensor of the parts `[N, *shape]`, each of its own type, by name; that of a single part is not copied."""
    if len(observation.parts) == 1:
        return parts[observation.parts[0].name]
    first = parts[observation.parts[0].name]
    packed = torch.zeros(len(first), *observation.shape, dtype=dtype_of(observation), device=first.device)
    for name, part in parts_of(packed, observation).items():
        part.copy_(parts[name])
    return packed
