"""The pictures of a video: all environments of a task as tiles."""

from math import ceil, sqrt
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gmi_drl.tasks import SimTask

Picture = npt.NDArray[np.uint8]
"""`[height, width, 3]`, RGB."""

SMALLEST = 320
"""Pixels of a tile's height below which it is enlarged by a whole number."""


class Pictures(Protocol):
    """Draws a task. `size` is the width and height of the whole picture in pixels."""

    size: tuple[int, int]

    def draw(self) -> Picture:
        """The environments as they are now."""

    def close(self) -> None:
        """Free what draws."""


class RenderedPictures:
    """Pictures of our physics by a renderer.

    Args:
        task: One of our tasks.
        size: Width and height, pixels.
        camera: The model's camera; None for its first.
    """

    def __init__(self, task: "SimTask", size: tuple[int, int], camera: str | None) -> None:
        from gmi_drl.tasks.sim.renderer import Renderer

        self.size, self._task = size, task
        self._renderer = Renderer(task.model_xml, task.num_env, size, camera)

    def draw(self) -> Picture:
        """See `Pictures.draw`."""
        return self._renderer.draw(self._task.states())

    def close(self) -> None:
        """See `Pictures.close`."""
        self._renderer.close()


class OwnPictures:
    """The pictures that another library draws of its environments.

    Args:
        task: It has `draw() -> [N, height, width, 3]`.
    """

    def __init__(self, task: Any) -> None:
        self._task = task
        height, width = self._whole().shape[:2]
        self.size = width, height

    def draw(self) -> Picture:
        """See `Pictures.draw`."""
        return self._whole()

    def close(self) -> None:
        """See `Pictures.close`."""

    def _whole(self) -> Picture:
        return tiled(self._task.draw())


def tiled(pictures: Picture) -> Picture:
    """One picture of even width and height with N `[N, height, width, 3]` as tiles, small ones enlarged."""
    count, height, width, _ = pictures.shape
    columns = ceil(sqrt(count))
    rows = ceil(count / columns)
    whole: Picture = np.zeros((rows * height, columns * width, 3), np.uint8)
    for number, picture in enumerate(pictures):
        top, left = number // columns * height, number % columns * width
        whole[top : top + height, left : left + width] = picture
    factor = max(1, SMALLEST // len(whole))
    large = whole.repeat(factor, 0).repeat(factor, 1)
    return np.pad(large, ((0, len(large) % 2), (0, large.shape[1] % 2), (0, 0)))
