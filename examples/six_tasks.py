"""A picture of the six tasks, each a moment after its start: `python examples/six_tasks.py docs/tasks.png`.

Needs the extras [mujoco] and [video] and OpenGL by EGL or OSMesa (`apt-get install libosmesa6`).
"""

import sys
from contextlib import closing

import numpy as np
import torch
from PIL import Image

from gmi_drl.tasks import SimTask, make
from gmi_drl.tasks.sim.renderer import Renderer

NAMES = ("ant", "anymal", "ball_balance", "franka_cabinet", "humanoid", "shadow_hand")
SIZE = (400, 300)
STEPS = 12


def draw(name: str) -> np.ndarray:
    """One world of a task after some random actions, `[height, width, 3]`."""
    task = make(name, num_env=1, seed=1)
    assert isinstance(task, SimTask)
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        task.step(0.3 * torch.randn(1, task.spec.action.size, generator=generator))
    with closing(Renderer(task.model_xml, 1, SIZE, None)) as renderer:
        return np.array(renderer.draw(task.states()))


if __name__ == "__main__":
    tiles = [draw(name) for name in NAMES]
    rows = [np.concatenate(tiles[start : start + 3], axis=1) for start in (0, 3)]
    Image.fromarray(np.concatenate(rows)).save(sys.argv[1])
