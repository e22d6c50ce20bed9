"""An ANYmal-like quadruped as MJCF, built from primitives: boxes, capsules, spheres and a plane.

Sizes and masses are near those that ANYbotics publishes for ANYmal B: 30 kg, 17 kg of which are the base; per leg a hip
(HAA, abduction), a thigh (HFE, flexion) and a shank (KFE, knee) of 0.25 m and 0.32 m; drives of 80 N m.
"""

from gmi_drl.tasks.mjcf_parts import GROUND, SCENERY, option

TIMESTEP_S = 0.01
START_HEIGHT_M = 0.62
STIFFNESS_NM_PER_RAD = 85
DAMPING_NMS_PER_RAD = 2
TORQUE_LIMIT_NM = 80

LEGS = {"LF": (1, 1), "LH": (-1, 1), "RF": (1, -1), "RH": (-1, -1)}
"""Where the legs are: 1 is the front and -1 the hind, 1 the left and -1 the right. x is forward, y is left."""

JOINTS = tuple(f"{leg}_{joint}" for leg in LEGS for joint in ("HAA", "HFE", "KFE"))
DEFAULT_JOINTS_RAD = tuple(angle for front, left in LEGS.values() for angle in (0.03 * left, 0.4 * front, -0.8 * front))
"""The stance that a zero action holds: knees bent towards the middle of the body."""

GUARDED = ("base", *(f"{leg}_thigh" for leg in LEGS))
"""The bodies that must not touch the floor."""

_THIGH_M = 0.25
_SHANK_M = 0.32
_FOOT_M = 0.03


def anymal_mjcf() -> str:
    """The model: a free base, 12 hinges with position drives, and a body without geoms whose place is the command.

    Sensors are the net contact force on each guarded body (5 x 3, world frame) and the torque of each drive (12).

    The base, thighs and feet collide with the floor, and nothing else collides; pairs and constraint islands are as for
    the Ant. Joints have no limits: a drive's target is within 0.5 rad of the stance, and holds the joint near it.
    """
    legs = "".join(_leg(leg, *place) for leg, place in LEGS.items())
    pairs = "".join(f'<pair geom1="floor" geom2="{part}"/>' for part in (*GUARDED, *(f"{leg}_foot" for leg in LEGS)))
    drives = "".join(f'<position name="{joint}" joint="{joint}"/>' for joint in JOINTS)
    contacts = "".join(f'<contact body1="{body}" data="force" reduce="netforce"/>' for body in GUARDED)
    torques = "".join(f'<actuatorfrc actuator="{joint}"/>' for joint in JOINTS)
    return f"""
<mujoco model="anymal">{SCENERY}
  <compiler autolimits="true"/>{option(TIMESTEP_S, 10)}
  <default>
    <geom contype="0" conaffinity="0" rgba="0.75 0.1 0.12 1"/>
    <joint armature="0.02" axis="0 1 0"/>
    <position kp="{STIFFNESS_NM_PER_RAD}" kv="{DAMPING_NMS_PER_RAD}" forcerange="-{TORQUE_LIMIT_NM} {TORQUE_LIMIT_NM}"/>
    <default class="dark"><geom rgba="0.13 0.14 0.16 1"/></default>
    <default class="light"><geom rgba="0.78 0.8 0.82 1"/></default>
  </default>
  <worldbody>{GROUND}
    <body name="command" mocap="true"/>
    <body name="base" pos="0 0 {START_HEIGHT_M}">
      <freejoint name="root"/>
      <camera name="side" pos="0 -2.4 0.7" xyaxes="1 0 0 0 1 3" mode="trackcom"/>
      <geom name="base" type="box" size="0.26 0.12 0.1" mass="15.5"/>
      <geom class="dark" type="box" size="0.34 0.08 0.05" mass="1"/>
      <geom class="light" type="box" pos="0 0 0.105" size="0.2 0.06 0.02" mass="0.5"/>{legs}
    </body>
  </worldbody>
  <contact>{pairs}</contact>
  <actuator>{drives}</actuator>
  <sensor>{contacts}{torques}</sensor>
</mujoco>"""


def _leg(leg: str, front: int, left: int) -> str:
    """A hip, a thigh beside it, and a shank that ends in a foot. The four legs are mirror images."""
    aside = 0.1 * left
    return f"""
      <body name="{leg}_hip" pos="{0.28 * front} {0.116 * left} 0">
        <joint name="{leg}_HAA" axis="1 0 0"/>
        <geom class="dark" type="capsule" size="0.05" fromto="0 0 0 {0.063 * front} {0.04 * left} 0" mass="1.4"/>
        <body name="{leg}_thigh" pos="{0.063 * front} {0.04 * left} 0">
          <joint name="{leg}_HFE"/>
          <geom class="light" type="capsule" size="0.05" fromto="0 0 0 0 {aside} 0" mass="0.6"/>
          <geom name="{leg}_thigh" type="capsule" size="0.04" fromto="0 {aside} 0 0 {aside} -{_THIGH_M}" mass="1"/>
          <body name="{leg}_shank" pos="0 {aside} -{_THIGH_M}">
            <joint name="{leg}_KFE"/>
            <geom class="dark" type="capsule" size="0.022" fromto="0 0 0 0 0 -{_SHANK_M}" mass="0.2"/>
            <geom class="light" name="{leg}_foot" type="sphere" size="{_FOOT_M}" pos="0 0 -{_SHANK_M}" mass="0.1"/>
          </body>
        </body>
      </body>"""
