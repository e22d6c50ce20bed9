"""Pictures of environments, drawn by MuJoCo without a window."""

from math import ceil, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.tasks.sim.offscreen import open_context

Frame = npt.NDArray[np.uint8]
"""`[height, width, 3]`, RGB, the top row first."""


class Renderer:
    """Draws environments as the tiles of one picture. One MjData takes the state of each in turn.

    Args:
        model_xml: The model as MJCF.
        worlds: Number of tiles K. They fill rows from the top left; there are as many columns as rows, or one more.
        size: Width and height of the whole picture, pixels.
        camera: A camera of the model; None for its first, or a free camera if it has none.

    Raises:
        MachineError: OpenGL does not work.
        UsageError: The model has no such camera, or a tile would have no pixel.
    """

    def __init__(self, model_xml: str, worlds: int, size: tuple[int, int], camera: str | None = None) -> None:
        import mujoco

        self._mujoco: Any = mujoco
        self._model = mujoco.MjModel.from_xml_string(model_xml)
        self._data = mujoco.MjData(self._model)
        self._camera = self._find(camera)
        self.size = width, height = size
        self._tiles = [mujoco.MjrRect(*tile) for tile in tiles(worlds, width, height)]
        self._whole = mujoco.MjrRect(0, 0, width, height)
        self._model.vis.global_.offwidth, self._model.vis.global_.offheight = width, height
        self._gl = open_context(width, height)
        self._scene = mujoco.MjvScene(self._model, maxgeom=2000)
        self._option, self._perturbation = mujoco.MjvOption(), mujoco.MjvPerturb()
        self._context = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)

    def draw(self, states: Tensor) -> Frame:
        """Draw one picture from MuJoCo's integration states, float64 `[K, S]`."""
        mujoco = self._mujoco
        mujoco.mjr_rectangle(self._whole, 0, 0, 0, 1)  # black where no tile is
        for tile, state in zip(self._tiles, states.numpy(), strict=True):
            mujoco.mj_setState(self._model, self._data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
            mujoco.mj_forward(self._model, self._data)
            # The floor is drawn below the scene's camera, which would still be that of the last tile.
            mujoco.mjv_updateCamera(self._model, self._data, self._camera, self._scene)
            everything = mujoco.mjtCatBit.mjCAT_ALL.value
            drawn = (self._model, self._data, self._option, self._perturbation, self._camera, everything, self._scene)
            mujoco.mjv_updateScene(*drawn)
            mujoco.mjr_render(tile, self._scene, self._context)
        frame = np.empty((self.size[1], self.size[0], 3), np.uint8)
        mujoco.mjr_readPixels(frame, None, self._whole, self._context)
        return frame[::-1]

    def close(self) -> None:
        """Free OpenGL's resources. Nothing can be drawn afterwards."""
        self._context.free()
        self._gl.free()

    def _find(self, name: str | None) -> Any:
        mujoco, model = self._mujoco, self._model
        names = [model.camera(index).name for index in range(model.ncam)]
        if name is not None and name not in names:
            raise UsageError(f"the model has no camera {name!r}; there are: {', '.join(names) or 'none'}")
        camera = mujoco.MjvCamera()
        if names:
            camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
            camera.fixedcamid = names.index(name) if name is not None else 0
        else:
            mujoco.mjv_defaultFreeCamera(model, camera)
        return camera


def tiles(count: int, width: int, height: int) -> list[tuple[int, int, int, int]]:
    """Left, bottom, width and height of each tile, pixels, in OpenGL's coordinates (upwards).

    Raises:
        UsageError: a tile would have no pixel.
    """
    columns = ceil(sqrt(count))
    rows = ceil(count / columns)
    wide, high = width // columns, height // rows
    if not wide or not high:
        raise UsageError(
            f"{count} environments do not fit into {width} x {height} pixels: draw fewer or a larger picture"
        )
    places = [divmod(index, columns) for index in range(count)]
    return [(column * wide, height - (row + 1) * high, wide, high) for row, column in places]
