"""Measures how many contacts and constraints a model has, because MuJoCo Warp allocates them beforehand."""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_WORLDS = 16
_CONTROLS = 24
_STEPS_PER_CONTROL = 10
_SEED = 0


def measure_sizes(mujoco: Any, batch: Any, model: Any, pairs: npt.NDArray[np.int32]) -> tuple[int, int]:
    """Measure the contacts and constraint rows of a world. Returns `nconmax` and `njmax`, about twice the largest seen.

    The measurement is a run of MuJoCo from the initial state, of 240 steps with random controls. Warp stores the pairs
    of geoms that pass its first, coarse test in an array of `nconmax` places, too, so these pairs are counted as well.

    Args:
        mujoco: The package.
        batch: Its module `mujoco.batch`.
        model: An MjModel.
        pairs: Geoms that may meet `[P, 2]`.
    """
    handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)  # random controls may make a world fail, which is expected
    try:
        most_contacts, most_rows = _run(batch.Batch(model, _WORLDS, nthread=1), model, pairs)
    finally:
        mujoco.set_mju_user_warning(handler)
    return 2 * most_contacts + 8, 2 * most_rows + 16


def _run(worlds: Any, model: Any, pairs: npt.NDArray[np.int32]) -> tuple[int, int]:
    random = np.random.default_rng(_SEED)
    low, high = np.where(model.actuator_ctrllimited[:, None], model.actuator_ctrlrange, [-1.0, 1.0]).T
    names = ("ncon", "nefc", "geom_xpos", "geom_xmat")
    contacts, rows, positions, matrices = (worlds.bind(name) for name in names)
    most_contacts = most_rows = 0
    for _ in range(_CONTROLS):
        worlds.bind("ctrl")[:] = random.uniform(low, high, (_WORLDS, model.nu))
        for _ in range(_STEPS_PER_CONTROL):
            worlds.step(nstep=1, stage=0)
            most_rows = max(most_rows, int(rows.max()))
            near = _near_pairs(model, pairs, positions, matrices)
            most_contacts = max(most_contacts, int(contacts.max()), int(near.max()))
    return most_contacts, most_rows


def _near_pairs(model: Any, pairs: npt.NDArray[np.int32], positions: Floats, matrices: Floats) -> npt.NDArray[np.int64]:
    """Count the pairs in each world `[N]` whose bounding spheres meet; a plane meets spheres not wholly above it.

    A geom with radius 0 is a plane. Every pair has the largest margin of all.
    """
    first, second = pairs.T
    radii = model.geom_rbound
    margin = max(2 * model.geom_margin.max(initial=0.0), model.pair_margin.max(initial=0.0))
    offset = positions[:, second] - positions[:, first]
    normals = matrices[..., 2::3]
    distance = np.linalg.norm(offset, axis=-1)
    distance = np.where(radii[first] == 0, (offset * normals[:, first]).sum(-1), distance)
    distance = np.where(radii[second] == 0, -(offset * normals[:, second]).sum(-1), distance)
    near: npt.NDArray[np.int64] = (distance <= radii[first] + radii[second] + margin).sum(1)
    return near
