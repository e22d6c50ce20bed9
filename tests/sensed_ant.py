"""A model that asks much of a simulator, for tests that compare two."""

import torch

from gmi_drl.tasks.ant_mjcf import ant_mjcf
from gmi_drl.tasks.sim import NativeSim

NUM_ENV = 6
FIELDS = ("qpos", "qvel", "ctrl", "mocap_pos", "xpos", "xmat", "sensordata")
TOLERANCES = {
    "qpos": 1e-5,
    "qvel": 1e-3,
    "ctrl": 0.0,
    "mocap_pos": 1e-7,
    "xpos": 1e-5,
    "xmat": 1e-4,
    "sensordata": 5e-3,
}
# Sensors of all stages (a refresh of positions and velocities must keep those of forces only), and a bob that swings
# about a point: a closed loop, whose constraint needs the velocities of the very state.
PARTS = """<body name="goal" mocap="true" pos="1 2 3"/>
<body name="bob" pos="0 5 3"><freejoint/><geom type="sphere" size="0.1" contype="0" conaffinity="0"/></body>
</worldbody><equality><connect body1="bob" anchor="0.5 0 0"/></equality>"""
MODEL = (
    ant_mjcf()
    .replace("</worldbody>", PARTS)
    .replace("</sensor>", '<framepos objtype="body" objname="torso"/><jointvel joint="hip_0"/></sensor>')
)


def native_sim(fields=FIELDS):
    return NativeSim(MODEL, NUM_ENV, substeps=2, fields=fields)


def controls(steps, seed=0):
    return torch.rand(steps, NUM_ENV, 8, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def only(*worlds):
    mask = torch.zeros(NUM_ENV, dtype=torch.bool)
    mask[list(worlds)] = True
    return mask
