"""The Shadow hand with a block, as MJCF, built from primitives: capsules for the links, boxes for palm and block.

Joints and their ranges, the stiffness and the greatest torque of the motors, link lengths and radii, damping 0.1 N m
s/rad and armature 0.001 kg m2 (the wrist's: five times those) follow the hand in OpenAI's robotics environments (arXiv
1802.09464), which IsaacGymEnvs uses. Joints are named as in Shadow's documentation, J1 being the distal one of a digit,
and a larger angle of J1, J2 or J3 of a finger bends it further. The hand lies palm up: x points along the stretched
fingers, -y to the thumb's side, z out of the palm.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import radians

from gmi_drl.tasks.mjcf_parts import GROUND, SCENERY, option

TIMESTEP_S = 1 / 120
PALM_POSITION_M = (0.0, 0.0, 0.3)
PALM_PITCH_DEG = 8
"""How far the fingers point up, so that the block rests between palm and fingers. At 15 degrees random actions throw it
off four times as often."""

BLOCK_START_M = (0.08, 0.0, 0.4)
GOAL_DROP_M = 0.04
"""How far below its start the block shall be held (IsaacGymEnvs)."""

GOAL_SHOWN_M = (0.08, 0.15, 0.42)
"""Where pictures show the goal block, beside the hand."""

BLOCK_HALF_SIZE_M = 0.025
FINGERS = ("FF", "MF", "RF", "LF", "TH")
LINKS = ("proximal", "middle", "distal")

_BEND, _SPREAD, _TWIST = "0 -1 0", "0 0 -1", "-1 0 0"
_KNUCKLES_M = {"FF": (0.095, -0.033), "MF": (0.099, -0.011), "RF": (0.095, 0.011), "LF": (0.088, 0.034)}
_FINGER_LINKS_M = ((0.045, 0.01), (0.025, 0.00805), (0.024, 0.00705))
_THUMB_LINKS_M = ((0.038, 0.013), (0.032, 0.011), (0.026, 0.00918))
"""Length and radius of each link, from the knuckle on."""


@dataclass(frozen=True)
class Joint:
    """A hinge.

    Args:
        name: Digit and number, as in Shadow's documentation.
        axis: In the frame of the link that it turns.
        range_deg: Lower and upper limit.
        torque_nm: Limit of its motor; 0 for the distal joints of the fingers, which follow the middle ones.
        kp: The motor's stiffness, N m/rad. Stiffer ones throw the block off the hand when actions are random.
    """

    name: str
    axis: str
    range_deg: tuple[float, float]
    torque_nm: float
    kp: float = 1.0


def _finger_joints(finger: str) -> tuple[Joint, ...]:
    return (
        Joint(f"{finger}J4", _SPREAD, (-20, 20), 0.9),
        Joint(f"{finger}J3", _BEND, (0, 90), 0.9),
        Joint(f"{finger}J2", _BEND, (0, 90), 0.7245),
        Joint(f"{finger}J1", _BEND, (0, 90), 0.0),
    )


_WRIST = (Joint("WRJ2", _SPREAD, (-28, 8), 4.785, 5.0), Joint("WRJ1", _BEND, (-40, 28), 2.175, 5.0))
_LITTLE_METACARPAL = Joint("LFJ5", "0.821 -0.571 0", (0, 45), 0.9)
_THUMB = (
    Joint("THJ5", _TWIST, (-60, 60), 2.3722),
    Joint("THJ4", _BEND, (0, 70), 1.45),
    Joint("THJ3", _BEND, (-12, 12), 0.99),
    Joint("THJ2", _SPREAD, (-30, 30), 0.99),
    Joint("THJ1", "0 0 1", (0, 90), 0.81),
)

JOINTS = (
    *_WRIST,
    *_finger_joints("FF"),
    *_finger_joints("MF"),
    *_finger_joints("RF"),
    _LITTLE_METACARPAL,
    *_finger_joints("LF"),
    *_THUMB,
)
"""All 24 in the order of qpos: wrist, first, middle, ring and little finger, thumb; each from the wrist outwards."""

JOINT_RANGES_RAD = tuple((radians(joint.range_deg[0]), radians(joint.range_deg[1])) for joint in JOINTS)
"""Lower and upper limit of each."""

MOTORS = tuple(joint for joint in JOINTS if joint.torque_nm)
"""The 20 that are driven, in the order of ctrl."""


def shadow_hand_mjcf() -> str:
    """The model: 24 hinges with 20 position motors, a free block, a goal block (mocap) and the sensors.

    The block collides with palm and links. Proximal and distal links of neighbouring fingers collide without friction,
    and so do the thumb's tip and the others. Nothing else collides, and the pairs are listed, because contacts are most
    of the cost. Sensors are in the order of the observation: torques of the joints, pose and velocity of each
    fingertip, force and torque in each.
    """
    return f"""
<mujoco model="shadow_hand">{SCENERY}
  <compiler angle="degree" autolimits="true"/>{option(TIMESTEP_S, 10)}
  <default>
    <geom density="1000" contype="0" conaffinity="0" rgba="0.35 0.38 0.42 1"/>
    <pair friction="1 1 0.005 0.0001 0.0001"/>
    <joint damping="0.1" armature="0.001"/>
    <default class="wrist"><joint damping="0.5" armature="0.005"/></default>
  </default>
  <worldbody>{GROUND}
    <camera name="side" pos="0.03 -0.32 0.66" xyaxes="1 0 0 0 0.64 0.77"/>
    <body name="forearm" pos="{_text(PALM_POSITION_M)}" euler="0 {-PALM_PITCH_DEG} 0">
      <geom type="capsule" size="0.03" fromto="-0.25 0 0 -0.065 0 0"/>
      <body name="palm">{_palm()}
      </body>
    </body>
    <body name="block" pos="{_text(BLOCK_START_M)}">
      <freejoint name="block"/>{_cube("block")}
    </body>
    <body name="goal" mocap="true" pos="{_text(GOAL_SHOWN_M)}">{_cube("goal")}
    </body>
  </worldbody>
  <contact>{_pairs()}
  </contact>
  <equality>{_couplings()}
  </equality>
  <actuator>{_motors()}
  </actuator>
  <sensor>{_sensors()}
  </sensor>
</mujoco>"""


def _palm() -> str:
    """The wrist and all that it carries. Wrist and forearm collide with nothing."""
    fingers = "".join(_finger(finger, *_KNUCKLES_M[finger]) for finger in ("FF", "MF", "RF"))
    metacarpal_x, metacarpal_y = 0.044, 0.017
    knuckle_x, knuckle_y = _KNUCKLES_M["LF"]
    return f"""
      {_hinge(_WRIST[0], 'pos="-0.034 0 0" class="wrist"')}{_hinge(_WRIST[1], 'class="wrist"')}
      <geom type="capsule" size="0.018" fromto="-0.034 0 0 0 0 0"/>
      <geom name="palm" type="box" pos="0.038 -0.011 0" size="0.049 0.032 0.0111"/>
      <geom name="heel" type="box" pos="0.014 0.032 0" size="0.025 0.011 0.0111"/>{fingers}
      <body name="LFmetacarpal" pos="{metacarpal_x} {metacarpal_y} 0">
        {_hinge(_LITTLE_METACARPAL)}
        <geom name="LFmetacarpal" type="box" pos="0.01 0.0165 0" size="0.025 0.0095 0.0111"/>
        {_finger("LF", knuckle_x - metacarpal_x, knuckle_y - metacarpal_y)}
      </body>
      {_thumb()}"""


def _finger(finger: str, x: float, y: float) -> str:
    spread, knuckle, middle, distal = _finger_joints(finger)
    return _links(finger, f'pos="{x} {y} 0"', ((spread, knuckle), (middle,), (distal,)), _FINGER_LINKS_M)


def _thumb() -> str:
    return _links(
        "TH", 'pos="0.029 -0.034 0.009" euler="0 0 -45"', (_THUMB[:2], _THUMB[2:4], _THUMB[4:]), _THUMB_LINKS_M
    )


def _links(digit: str, base: str, joints: tuple[tuple[Joint, ...], ...], sizes: tuple[tuple[float, float], ...]) -> str:
    """A chain of capsules along x. The last one has another colour, and a site at its end."""
    text, place = "", base
    for link, hinges, (length, radius) in zip(LINKS, joints, sizes, strict=True):
        colour = ' rgba="0.85 0.85 0.8 1"' if link == "distal" else ""
        text += f'''
      <body name="{digit}{link}" {place}>{"".join(map(_hinge, hinges))}
        <geom name="{digit}{link}" type="capsule" size="{radius}" fromto="0 0 0 {length} 0 0"{colour}/>'''
        place = f'pos="{length} 0 0"'
    return f'{text}<site name="{digit}tip" {place} size="0.002"/>{"</body>" * len(LINKS)}'


def _hinge(joint: Joint, more: str = "") -> str:
    return f'<joint name="{joint.name}" axis="{joint.axis}" range="{_text(joint.range_deg)}" {more}/>'


def _pairs() -> str:
    hand = ["palm", "heel", "LFmetacarpal", *(f"{finger}{link}" for finger in FINGERS for link in LINKS)]
    neighbours = [(one + link, other + link) for one, other in pairwise(FINGERS[:4]) for link in LINKS[::2]]
    tips = [(f"{finger}distal", "THdistal") for finger in FINGERS[:4]]
    block = "".join(f'<pair geom1="block" geom2="{part}"/>' for part in hand)
    return block + "".join(f'<pair geom1="{a}" geom2="{b}" condim="1"/>' for a, b in neighbours + tips)


def _couplings() -> str:
    """The coupling of middle and distal joint of a finger: one motor bends both alike, as on the real hand."""
    return "".join(f'<joint joint1="{finger}J1" joint2="{finger}J2"/>' for finger in FINGERS[:4])


def _motors() -> str:
    return "".join(
        f'<position joint="{motor.name}" kp="{motor.kp}" inheritrange="1" '
        f'forcerange="{-motor.torque_nm} {motor.torque_nm}"/>'
        for motor in MOTORS
    )


def _sensors() -> str:
    def at_tips(*kinds: str) -> str:
        return "".join(kind.format(f"{finger}tip") for finger in FINGERS for kind in kinds)

    torques = "".join(f'<jointactuatorfrc joint="{joint.name}"/>' for joint in JOINTS)
    frames = (f'<frame{what} objtype="site" objname="{{}}"/>' for what in ("pos", "quat", "linvel", "angvel"))
    return torques + at_tips(*frames) + at_tips('<force site="{}"/>', '<torque site="{}"/>')


def _cube(name: str) -> str:
    """A block with another colour on each face. The colours are sites, without effect on the physics."""
    colours = ("0.9 0.1 0.1", "0.95 0.55 0.1", "0.1 0.7 0.2", "0.95 0.9 0.2", "0.1 0.3 0.9", "0.95 0.95 0.95")
    size = _text([BLOCK_HALF_SIZE_M] * 3)
    text = f'''
      <geom name="{name}" type="box" size="{size}" density="567" rgba="0.15 0.15 0.15 1"/>'''
    for face, colour in enumerate(colours):
        place, plate = [0.0] * 3, [0.8 * BLOCK_HALF_SIZE_M] * 3
        place[face // 2] = BLOCK_HALF_SIZE_M * (-1) ** face
        plate[face // 2] = 0.0005
        text += f'<site type="box" pos="{_text(place)}" size="{_text(plate)}" rgba="{colour} 1"/>'
    return text


def _text(numbers: tuple[float, ...] | list[float]) -> str:
    return " ".join(str(number) for number in numbers)
