"""A humanoid with 21 motors as MJCF, built from primitives: capsules, spheres and a plane.

Proportions, joints and their ranges follow the humanoid of DeepMind's Control Suite (Tassa et al. 2018, arXiv
1801.00690), the torques of the motors are those of IsaacGymEnvs, 22.5 to 135 N m.
"""

from math import radians
from typing import NamedTuple

from gmi_drl.tasks.mjcf_parts import GROUND, SCENERY, option

TIMESTEP_S = 1 / 120
START_HEIGHT_M = 1.34


class Joint(NamedTuple):
    """A hinge with a motor, and a spring towards angle zero. Where there are two, left mirrors right.

    Args:
        axis: Axis of the left one or the only one; x is forward, y is left.
        range_deg: Lower and upper limit.
        torque_nm: Torque of the motor at action 1.
        stiffness_nm: Stiffness of the spring, per rad.
        damping_nms: Damping, per rad/s.
    """

    axis: tuple[int, int, int]
    range_deg: tuple[int, int]
    torque_nm: float
    stiffness_nm: float
    damping_nms: float


_TRUNK = {
    "abdomen_z": Joint((0, 0, 1), (-45, 45), 67.5, 20, 5),
    "abdomen_y": Joint((0, -1, 0), (-30, 75), 67.5, 20, 5),
    "abdomen_x": Joint((1, 0, 0), (-35, 35), 67.5, 10, 5),
}
_LEG = {
    "hip_x": Joint((1, 0, 0), (-5, 25), 45.0, 10, 5),
    "hip_z": Joint((0, 0, 1), (-35, 60), 45.0, 10, 5),
    "hip_y": Joint((0, -1, 0), (-20, 110), 135.0, 20, 5),
    "knee": Joint((0, 1, 0), (-2, 160), 90.0, 5, 2),
    "ankle_y": Joint((0, 1, 0), (-50, 50), 22.5, 6, 1),
    "ankle_x": Joint((1, 0, 0), (-50, 50), 22.5, 3, 1),
}
_ARM = {
    "shoulder_1": Joint((0, -1, 0), (-60, 85), 67.5, 2, 1),
    "shoulder_2": Joint((1, 0, 0), (-10, 85), 67.5, 2, 1),
    "elbow": Joint((0, -1, 0), (-2, 90), 45.0, 2, 1),
}
_SIDES = {"right": -1, "left": 1}

JOINTS: dict[str, Joint] = _TRUNK | {
    f"{side}_{name}": joint for limb in (_LEG, _ARM) for side in _SIDES for name, joint in limb.items()
}
"""In the order of observations and actions. Positive angles fold the trunk forward, lift a thigh or an arm forward
(hip_y, shoulder_1) or to its side (hip_x, shoulder_2), point toes outward (hip_z) or down (ankle_y), and bend knees and
elbows."""

JOINT_RANGES_RAD = tuple((radians(joint.range_deg[0]), radians(joint.range_deg[1])) for joint in JOINTS.values())
TORQUES_NM = tuple(joint.torque_nm for joint in JOINTS.values())


def humanoid_mjcf() -> str:
    """The model: a free torso, 21 hinges with motors; sensors of their torques, and of force and torque in each ankle.

    Feet and shins collide with the floor (trunk, head and arms cannot reach it before the fall that ends an episode),
    thigh with thigh and shin with shin. Arms pass through the body. Pairs and constraint islands are as for the Ant.
    """
    floor = (f"{side}_{part}" for side in _SIDES for part in ("inner_foot", "outer_foot", "shin"))
    pairs = "".join(f'<pair geom1="floor" geom2="{part}"/>' for part in floor)
    pairs += "".join(f'<pair geom1="right_{part}" geom2="left_{part}"/>' for part in ("thigh", "shin"))
    motors = "".join(f'<motor joint="{name}" gear="{joint.torque_nm}"/>' for name, joint in JOINTS.items())
    torques = "".join(f'<jointactuatorfrc joint="{name}"/>' for name in JOINTS)
    ankles = "".join(f'<force site="{side}_ankle"/><torque site="{side}_ankle"/>' for side in _SIDES)
    legs, arms = "".join(map(_leg, _SIDES)), "".join(map(_arm, _SIDES))
    return f"""
<mujoco model="humanoid">{SCENERY}
  <compiler angle="degree" autolimits="true"/>{option(TIMESTEP_S, 10)}
  <default>
    <geom type="capsule" contype="0" conaffinity="0" rgba="0.85 0.65 0.45 1"/>
    <joint armature="0.01"/>
    <motor ctrlrange="-1 1"/>
    <default class="cloth"><geom rgba="0.16 0.32 0.55 1"/></default>
    <default class="shoe"><geom rgba="0.93 0.93 0.9 1"/></default>
  </default>
  <worldbody>{GROUND}
    <body name="torso" pos="0 0 {START_HEIGHT_M}">
      <freejoint name="root"/>
      <camera name="side" pos="0 -4 0.6" xyaxes="1 0 0 0 1 5" mode="trackcom"/>
      <geom class="cloth" size="0.07" fromto="0 -0.07 0 0 0.07 0"/>
      <geom class="cloth" size="0.06" fromto="-0.01 -0.06 -0.12 -0.01 0.06 -0.12"/>
      <geom type="sphere" size="0.09" pos="0 0 0.19"/>
      <body name="waist" pos="-0.01 0 -0.26">
        {_joints("abdomen_z", "abdomen_y")}
        <geom class="cloth" size="0.06" fromto="0 -0.06 0 0 0.06 0"/>
        <body name="pelvis" pos="0 0 -0.165">
          {_joints("abdomen_x")}
          <geom class="cloth" size="0.09" fromto="-0.02 -0.07 0 -0.02 0.07 0"/>{legs}
        </body>
      </body>{arms}
    </body>
  </worldbody>
  <contact>{pairs}</contact>
  <actuator>{motors}</actuator>
  <sensor>{torques}{ankles}</sensor>
</mujoco>"""


def _leg(side: str) -> str:
    """A thigh, a shin and a foot, whose sole is a pair of capsules."""
    left = _SIDES[side]
    return f"""
          <body name="{side}_thigh" pos="0 {0.1 * left} -0.04">
            {_joints(*(f"{side}_{name}" for name in ("hip_x", "hip_z", "hip_y")))}
            <geom name="{side}_thigh" class="cloth" size="0.06" fromto="0 0 0 0 {-0.01 * left} -0.33"/>
            <body name="{side}_shin" pos="0 {-0.01 * left} -0.4">
              {_joints(f"{side}_knee")}
              <geom name="{side}_shin" size="0.049" fromto="0 0 0 0 0 -0.32"/>
              <body name="{side}_foot" pos="0 0 -0.39">
                {_joints(f"{side}_ankle_y", f"{side}_ankle_x")}
                <geom name="{side}_inner_foot" class="shoe" size="0.027" fromto="-0.07 0 0 0.14 {-0.02 * left} 0"/>
                <geom name="{side}_outer_foot" class="shoe" size="0.027" fromto="-0.07 0 0 0.14 {0.03 * left} 0"/>
                <site name="{side}_ankle"/>
              </body>
            </body>
          </body>"""


def _arm(side: str) -> str:
    """An upper arm and a forearm with a hand, hanging down."""
    left = _SIDES[side]
    return f"""
      <body name="{side}_upper_arm" pos="0 {0.18 * left} 0.04">
        {_joints(f"{side}_shoulder_1", f"{side}_shoulder_2")}
        <geom class="cloth" size="0.042" fromto="0 0 0 0 {0.03 * left} -0.26"/>
        <body name="{side}_forearm" pos="0 {0.03 * left} -0.27">
          {_joints(f"{side}_elbow")}
          <geom size="0.033" fromto="0 0 0 0.02 0 -0.2"/>
          <geom type="sphere" size="0.042" pos="0.025 0 -0.25"/>
        </body>
      </body>"""


def _joints(*names: str) -> str:
    return "".join(map(_joint, names))


def _joint(name: str) -> str:
    """A hinge; the axes of the right side are turned so that angles of both sides mean the same."""
    joint = JOINTS[name]
    x, y, z = joint.axis
    sign = -1 if name.startswith("right") else 1
    return (
        f'<joint name="{name}" axis="{sign * x} {y} {sign * z}" range="{joint.range_deg[0]} {joint.range_deg[1]}" '
        f'stiffness="{joint.stiffness_nm}" damping="{joint.damping_nms}"/>'
    )
