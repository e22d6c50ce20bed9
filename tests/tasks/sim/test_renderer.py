from contextlib import closing

import numpy as np
import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.tasks import make
from gmi_drl.tasks.sim.renderer import Renderer, tiles


def test_tiles_fill_rows_from_the_top_left():
    assert tiles(1, 64, 48) == [(0, 0, 64, 48)]
    assert tiles(3, 64, 48) == [(0, 24, 32, 24), (32, 24, 32, 24), (0, 0, 32, 24)]
    assert [tile[:2] for tile in tiles(5, 90, 60)] == [(0, 30), (30, 30), (60, 30), (0, 0), (30, 0)]


def test_tiles_without_pixels_are_refused():
    with pytest.raises(UsageError, match="100 environments do not fit into 9 x 64 pixels"):
        tiles(100, 9, 64)


def test_every_tile_shows_its_own_environment(opengl):
    task = make("ant", num_env=3, seed=1)
    task.step(torch.ones(3, 8))
    with closing(Renderer(task.model_xml, 3, (64, 48))) as renderer:
        states = task.states()
        frame = renderer.draw(states)
        assert frame.shape == (48, 64, 3) and frame.dtype == np.uint8
        assert np.array_equal(frame, renderer.draw(states)), "drawing has no memory"
        swapped = renderer.draw(states[[1, 0, 2]])
    assert np.array_equal(frame[:24, :32], swapped[:24, 32:]) and np.array_equal(frame[:24, 32:], swapped[:24, :32])
    assert not np.array_equal(frame[:24, :32], frame[:24, 32:])
    assert not frame[24:, 32:].any(), "no world, no picture"


def test_the_ant_is_seen_on_its_floor_below_the_sky(opengl):
    task = make("ant", num_env=1)
    with closing(Renderer(task.model_xml, 1, (64, 48), camera="side")) as renderer:
        frame = renderer.draw(task.states()).astype(int)
    is_orange = (frame[..., 0] > 120) & (frame[..., 2] < 80)
    assert 30 < is_orange.sum() < 64 * 48 / 3
    assert is_orange[:, 16:48].any() and not is_orange[:, :4].any(), "the camera follows the torso"
    assert (frame[-8:, :, 2] > frame[-8:, :, 0]).all(), "the floor is blueish"


def test_camera_light_and_floor_go_along(opengl):
    task = make("ant", num_env=2)
    states = task.states()[[0, 0]]
    with closing(Renderer(task.model_xml, 2, (64, 24))) as renderer:
        together = renderer.draw(states).astype(int)
        states[1, 1] += 200  # time, then x; the squares of the floor repeat every 2 m
        apart = renderer.draw(states).astype(int)
        states[1, 1] += 1
        moved = renderer.draw(states).astype(int)
    assert np.abs(together - apart).mean() < 1
    assert np.abs(together - moved)[:, 32:].mean() > 5, "motion shows on the floor"


def test_an_unknown_camera_lists_what_exists():
    with pytest.raises(UsageError, match="no camera 'top'; there are: side"):
        Renderer(make("ant", num_env=1).model_xml, 1, (64, 48), camera="top")
