from xml.etree import ElementTree

import mujoco
import numpy as np

from gmi_drl.tasks.ant_mjcf import ant_mjcf


def bare(mjcf):
    """The same model without anything that only pictures show."""
    root = ElementTree.fromstring(mjcf)
    for tag in ("visual", "asset"):
        root.remove(root.find(tag))
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in ("light", "camera")]:
            parent.remove(child)
        parent.attrib.pop("material", None)
    return ElementTree.tostring(root, encoding="unicode")


def test_the_scenery_changes_nothing_of_the_physics():
    with_scenery, without = (mujoco.MjModel.from_xml_string(text) for text in (ant_mjcf(), bare(ant_mjcf())))
    assert (with_scenery.nmat, with_scenery.nlight, without.nmat, without.nlight) == (1, 1, 0, 0)
    here, there = mujoco.MjData(with_scenery), mujoco.MjData(without)
    random = np.random.default_rng(0)
    for _ in range(300):
        here.ctrl[:] = there.ctrl[:] = random.uniform(-1, 1, with_scenery.nu)
        mujoco.mj_step(with_scenery, here)
        mujoco.mj_step(without, there)
    assert np.array_equal(here.qpos, there.qpos) and np.array_equal(here.sensordata, there.sensordata)
    assert np.abs(here.qpos[:2]).max() > 0.05, "it must have moved"
