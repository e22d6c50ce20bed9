from math import cos, pi, sin

import torch

from gmi_drl.tasks.rotation import into_frame, multiply, rotation_matrix


def test_matrices_of_turns_about_each_axis():
    half = pi / 12
    quaternions = [
        (cos(half), sin(half), 0, 0),
        (cos(half), 0, sin(half), 0),
        (cos(half), 0, 0, sin(half)),
        (1, 0, 0, 0),
    ]
    c, s = cos(2 * half), sin(2 * half)
    expected = [
        [[1, 0, 0], [0, c, -s], [0, s, c]],
        [[c, 0, s], [0, 1, 0], [-s, 0, c]],
        [[c, -s, 0], [s, c, 0], [0, 0, 1]],
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    ]
    matrices = rotation_matrix(torch.tensor(quaternions, dtype=torch.float32).T).movedim(-1, 0)
    torch.testing.assert_close(matrices, torch.tensor(expected, dtype=torch.float32))


def test_matrices_agree_with_mujoco():
    import mujoco
    import numpy as np

    quaternions = torch.nn.functional.normalize(torch.randn(20, 4, generator=torch.Generator().manual_seed(0)))
    matrices = rotation_matrix(quaternions.T)
    for world, quaternion in enumerate(quaternions):
        expected = np.zeros(9)
        mujoco.mju_quat2Mat(expected, quaternion.double().numpy())
        torch.testing.assert_close(
            matrices[..., world].flatten().double(), torch.from_numpy(expected), atol=1e-6, rtol=0
        )


def test_vectors_are_seen_from_the_body_and_turned_back():
    generator = torch.Generator().manual_seed(0)
    rotation = rotation_matrix(torch.nn.functional.normalize(torch.randn(4, 5, generator=generator), dim=0))
    world = torch.randn(3, 5, generator=generator)
    torch.testing.assert_close(torch.einsum("ijn,jn->in", rotation, into_frame(rotation, world)), world)


def test_products_agree_with_mujoco():
    import mujoco
    import numpy as np

    left, right = torch.randn(2, 20, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    products = multiply(left.T, right.T).T
    for world in range(20):
        expected = np.zeros(4)
        mujoco.mju_mulQuat(expected, left[world].numpy(), right[world].numpy())
        torch.testing.assert_close(products[world], torch.from_numpy(expected))
