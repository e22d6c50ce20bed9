"""Rotations of batches of bodies. Components come first (`[..., N]`), which makes each operation a pass over memory."""

from functools import cache

import torch
from torch import Tensor

_FIRST = ("-yy", "+xy", "+xz", "+xy", "-xx", "+yz", "+xz", "+yz", "-xx")
_SECOND = ("-zz", "-wz", "+wy", "+wz", "-zz", "-wx", "-wy", "+wx", "-yy")


def rotation_matrix(quaternion: Tensor) -> Tensor:
    """Unit quaternions `[4, N]` (w, x, y, z; MuJoCo's order) to matrices `[3, 3, N]` that turn body into world vectors.

    Each entry is the identity's plus or minus two products of components. They are picked and added in two passes over
    all nine, not multiplied by a constant matrix, because TF32 would leave three digits of that on a GPU.
    """
    root = quaternion * 2**0.5
    products = (root[:, None] * root).view(16, -1)
    identity, first, first_sign, second, second_sign = _entries(quaternion.device)
    rows = torch.addcmul(identity, products.index_select(0, first), first_sign)
    return rows.addcmul_(products.index_select(0, second), second_sign).view(3, 3, -1)


def into_frame(rotation: Tensor, vector: Tensor) -> Tensor:
    """World vectors `[3, N]` as the bodies that `rotation` `[3, 3, N]` turns see them."""
    return (rotation * vector[:, None]).sum(0)


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """Products of quaternions `[4, N]` (w, x, y, z): first the turns of `right`, then those of `left`."""
    (a, x), (b, y) = (left[:1], left[1:]), (right[:1], right[1:])
    scalar = a * b - (x * y).sum(0, keepdim=True)
    return torch.cat((scalar, a * y + b * x + torch.linalg.cross(x, y, dim=0)))


@cache
def _entries(device: torch.device) -> tuple[Tensor, ...]:
    """Of the nine entries by rows: the identity's `[9, 1]`, and row of `products` and sign of the two summands."""
    return torch.eye(3, device=device).view(9, 1), *_summands(_FIRST, device), *_summands(_SECOND, device)


def _summands(names: tuple[str, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    rows = [4 * "wxyz".index(name[1]) + "wxyz".index(name[2]) for name in names]
    signs = [[float(name[0] + "1")] for name in names]
    return torch.tensor(rows, device=device), torch.tensor(signs, device=device)
