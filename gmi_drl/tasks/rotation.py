"""Rotations of batches of bodies. Components come first (`[..., N]`), so each operation reads contiguous memory."""

from functools import cache

import torch
from torch import Tensor

_FIRST = ("-yy", "+xy", "+xz", "+xy", "-xx", "+yz", "+xz", "+yz", "-xx")
_SECOND = ("-zz", "-wz", "+wy", "+wz", "-zz", "-wx", "-wy", "+wx", "-yy")


def rotation_matrix(quaternion: Tensor) -> Tensor:
    """Convert unit quaternions `[4, N]` (w, x, y, z, as in MuJoCo) to matrices `[3, 3, N]`, body to world vectors.

    Each entry is the identity's plus or minus two products of components. These are picked and added in two passes
    over all nine entries. A product with a constant matrix would keep only three digits in TF32 on a GPU.
    """
    root = quaternion * 2**0.5
    products = (root[:, None] * root).view(16, -1)
    identity, first, first_sign, second, second_sign = _entries(quaternion.device)
    rows = torch.addcmul(identity, products.index_select(0, first), first_sign)
    return rows.addcmul_(products.index_select(0, second), second_sign).view(3, 3, -1)


def into_frame(rotation: Tensor, vector: Tensor) -> Tensor:
    """World vectors `[3, N]` in the frames of the bodies whose matrices are `rotation` `[3, 3, N]`."""
    return (rotation * vector[:, None]).sum(0)


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """Products of quaternions `[4, N]` (w, x, y, z): the rotation by `right`, then by `left`."""
    (a, x), (b, y) = (left[:1], left[1:]), (right[:1], right[1:])
    scalar = a * b - (x * y).sum(0, keepdim=True)
    return torch.cat((scalar, a * y + b * x + torch.linalg.cross(x, y, dim=0)))


@cache
def _entries(device: torch.device) -> tuple[Tensor, ...]:
    """Of the nine entries: the identity's `[9, 1]`, then row in `products` and sign of the first and second summand."""
    return torch.eye(3, device=device).view(9, 1), *_summands(_FIRST, device), *_summands(_SECOND, device)


def _summands(names: tuple[str, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    rows = [4 * "wxyz".index(name[1]) + "wxyz".index(name[2]) for name in names]
    signs = [[float(name[0] + "1")] for name in names]
    return torch.tensor(rows, device=device), torch.tensor(signs, device=device)
