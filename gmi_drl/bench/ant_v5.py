"""Ant-v5 of gymnasium with gymnasium's own model and settings, to compare with libraries that train on it.

From `gymnasium/envs/mujoco/ant_v5.py` (1.4), default arguments: 5 substeps of 10 ms by RK4. Observations `[N, 105]` are
qpos without x and y (13), qvel (14) and the contact forces on the 13 bodies, clipped to [-1, 1] (78). Reward = velocity
along x + 1 while healthy - 0.5 times the squared actions - 0.0005 times the squared clipped forces. An episode ends
where the torso leaves 0.2 to 1 m and is truncated after 1000 steps. States follow gymnasium's to the last bit; this
differs:

* Contact forces (cfrc_ext) are those of the new state. gymnasium's are those of the last trial state of RK4, mostly
  less than a millimetre beside it: where a foot lands or lifts in between, one has a force and the other has none.
* The velocity comes from the new position. gymnasium's comes from xpos, which belongs to that trial state, too.
* A world whose numbers become NaN or huge is truncated and left out of training. gymnasium ends its episode.
* Actions are clamped to [-1, 1], the model's range, before they cost anything. gymnasium charges for the excess.
* Constraint islands are off and what may touch the floor is named as pairs, which changes no bit: one robot is one
  island, its parts do not touch each other, and looking for both took a tenth of the time.
* Observations and rewards are float32.
"""

import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from gmi_drl.errors import MachineError
from gmi_drl.sim import NativeSim
from gmi_drl.tasks import SimTask, Task, TaskDefinition
from gmi_drl.tasks.sim_task import Fields
from gmi_drl.workload import TaskSpec

HEALTHY_HEIGHT_M = (0.2, 1.0)
START_HEIGHT_M = 0.75
RESET_NOISE = 0.1
CONTROL_COST = 0.5
CONTACT_COST = 5e-4
_SPEC = TaskSpec("ant-v5", "AT", 105, 8, (256, 128, 64), episode_steps=1000, step_s=0.05)
_FORCES = slice(27, 105)


def make_ant_v5(num_env: int, seed: int, threads: int = 1, device: str = "cpu") -> Task:
    """Make the task, ready to step. Raises MachineError where gymnasium or mujoco is missing."""
    fields, substeps = ANT_V5.fields, ANT_V5.substeps
    sim = NativeSim(ANT_V5.build_mjcf(), num_env, substeps=substeps, fields=fields, threads=threads, device=device)
    return SimTask(ANT_V5, sim, seed)


def ant_v5_mjcf() -> str:
    """The model of gymnasium, sooner stepped, with a sensor that makes MuJoCo compute cfrc_ext in every step.

    Friction and margin of a pair are those that MuJoCo derives from the two geoms: the greater and the sum.
    """
    root = ET.fromstring(_model_file().read_text())
    contacts = ET.SubElement(root, "contact")
    for geom in root.iterfind("worldbody//geom"):
        geom.attrib |= {"contype": "0", "conaffinity": "0"}
        if geom.get("name") != "floor":
            names = {"geom1": "floor", "geom2": geom.attrib["name"]}
            ET.SubElement(contacts, "pair", names, condim="3", friction="1 1 0.5 0.5 0.5", margin="0.02")
    ET.SubElement(ET.SubElement(root, "option"), "flag", island="disable")
    ET.SubElement(ET.SubElement(root, "sensor"), "framelinacc", objtype="body", objname="torso")
    return ET.tostring(root, encoding="unicode")


def observe(fields: Fields, action: Tensor) -> Tensor:
    """Observation `[N, 105]` from qpos `[N, 15]`, qvel `[N, 14]` and cfrc_ext `[N, 14, 6]` (body 0 is the world)."""
    forces = fields["cfrc_ext"][:, 1:].flatten(1).clamp(-1, 1)
    return torch.cat((fields["qpos"][:, 2:], fields["qvel"], forces), dim=1)


def reward_done(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> tuple[Tensor, Tensor]:
    """Reward `[N]` and unhealthy, bool `[N]`, of the step that led from `before` to `after` and `obs`."""
    low, high = HEALTHY_HEIGHT_M
    is_healthy = (obs[:, 0] >= low) & (obs[:, 0] <= high)
    velocity = (after["qpos"][:, 0] - before["qpos"][:, 0]) / _SPEC.step_s
    costs = CONTROL_COST * action.square().sum(1) + CONTACT_COST * obs[:, _FORCES].square().sum(1)
    return velocity + is_healthy - costs, ~is_healthy


def reset_state(noise: Tensor) -> dict[str, Tensor]:
    """First states of N episodes from noise `[N, 29]`: qpos `[N, 15]` with uniform and qvel `[N, 14]` with normal."""
    qpos = RESET_NOISE * noise[:, :15]
    qpos[:, 2] += START_HEIGHT_M
    qpos[:, 3] += 1  # the quaternion's real part; MuJoCo normalises
    normal = 2**0.5 * torch.erfinv(noise[:, 15:].clamp(min=-1 + 1e-7))  # -1 would be infinite
    return {"qpos": qpos, "qvel": RESET_NOISE * normal}


def _model_file() -> Path:
    package = find_spec("gymnasium")
    if package is None or package.origin is None:
        raise MachineError("Ant-v5 needs gymnasium, which is not installed. pip install 'gmi-drl[gymnasium]'")
    return Path(package.origin).parent / "envs" / "mujoco" / "assets" / "ant.xml"


ANT_V5 = TaskDefinition(
    spec=_SPEC,
    build_mjcf=ant_v5_mjcf,
    substeps=5,
    fields=("qpos", "qvel", "cfrc_ext"),
    observe=observe,
    reward_done=reward_done,
    reset_noise=29,
    reset_state=reset_state,
    remembered=("qpos",),
)
