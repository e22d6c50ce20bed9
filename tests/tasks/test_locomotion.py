from math import radians

import pytest
import torch

from gmi_drl.tasks.locomotion import progress, scaling, start_state

RANGES = ((-0.5, 1.0), (radians(30), radians(100)))


def test_progress_is_exact_far_from_the_start():
    start, end = torch.tensor([[300.0, 40.0]]), torch.tensor([[300.001, 40.002]])
    exact = (torch.tensor([1000.0, 0.0]) - start.double()).norm() - (torch.tensor([1000.0, 0.0]) - end.double()).norm()
    assert progress(start, end).item() == pytest.approx(exact.item(), rel=1e-4)


def test_standing_still_is_no_progress():
    assert progress(torch.full((1, 2), 7.0), torch.full((1, 2), 7.0)).item() == 0


def test_joints_are_scaled_to_their_limits_and_the_rest_as_given():
    offset, scale = scaling([2.0, 3.0], RANGES, [0.5], torch.device("cpu"))
    low, high = torch.tensor([[1.0, 1.0, limits[0], limits[1], 4.0] for limits in zip(*RANGES, strict=True)])
    torch.testing.assert_close(offset + scale * low, torch.tensor([2.0, 3.0, -1.0, -1.0, 2.0]))
    torch.testing.assert_close(offset + scale * high, torch.tensor([2.0, 3.0, 1.0, 1.0, 2.0]))


def test_starts_are_noise_about_the_allowed_pose_nearest_to_zero():
    state = start_state(torch.tensor([[0.5, 0.5, 1.0, -1.0], [-1.0, -1.0, 0.0, 0.0]]), 1.5, RANGES)
    joints = [[0.1, radians(30) + 0.1], [-0.2, radians(30)]]
    torch.testing.assert_close(state["qpos"], torch.tensor([[0, 0, 1.5, 1, 0, 0, 0, *angles] for angles in joints]))
    torch.testing.assert_close(state["qvel"][:, 6:], torch.tensor([[0.1, -0.1], [0.0, 0.0]]))
    assert torch.equal(state["qvel"][:, :6], torch.zeros(2, 6))
