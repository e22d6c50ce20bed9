"""Rotations of batches of bodies. Components come first (`[..., N]`), which makes each operation a pass over memory."""

import torch
from torch import Tensor


def rotation_matrix(quaternion: Tensor) -> Tensor:
    """Unit quaternions `[4, N]` (w, x, y, z; MuJoCo's order) to matrices `[3, 3, N]` that turn body into world vectors.

    Written out instead of multiplied by a constant matrix, because TF32 would leave three digits of it on a GPU.
    """
    root = quaternion * 2**0.5
    (_, wx, wy, wz), (_, xx, xy, xz), (_, _, yy, yz), (_, _, _, zz) = root[:, None] * root
    one_xx = 1 - xx
    rows = (1 - yy - zz, xy - wz, xz + wy, xy + wz, one_xx - zz, yz - wx, xz - wy, yz + wx, one_xx - yy)
    return torch.stack(rows).view(3, 3, -1)
