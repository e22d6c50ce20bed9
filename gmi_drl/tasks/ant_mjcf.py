"""The Ant as MJCF, built from primitives: a sphere, capsules and a plane.

Sizes follow the Ant of Schulman et al. 2015 (arXiv 1506.02438) in the light variant of IsaacGymEnvs: density 5 kg/m3
(0.91 kg in all), motors of 15 N m, joint armature 0.01 kg m2 and damping 0.1 N m s/rad.
"""

from math import cos, radians, sin

from gmi_drl.tasks.mjcf_parts import GROUND, SCENERY, option

TIMESTEP_S = 1 / 120
START_HEIGHT_M = 0.5
GEAR_NM = 15
HIP_RANGE_DEG = (-40, 40)
KNEE_RANGE_DEG = (30, 100)
LEG_YAW_DEG = (45, 135, -135, -45)
"""Where the legs point: front left, back left, back right, front right (x is forward)."""

_LEG_RANGES_RAD = tuple((radians(low), radians(high)) for low, high in (HIP_RANGE_DEG, KNEE_RANGE_DEG))
JOINT_RANGES_RAD = _LEG_RANGES_RAD * len(LEG_YAW_DEG)
"""Lower and upper limit of each hinge, in the order hip 0, knee 0, hip 1, knee 1, ..."""

_HIP_M = 0.2 * 2**0.5
_THIGH_M = 0.2 * 2**0.5
_SHIN_M = 0.4 * 2**0.5


def ant_mjcf() -> str:
    """The model: a free torso, 8 hinges with motors, and a force and a torque sensor in each knee.

    Only the torso, thighs and shins collide with the floor, and nothing else collides, because each contact takes time.
    Their pairs are listed, so MuJoCo need not search for them. Nor does it search for constraint islands, since one
    robot is one island.
    """
    count = range(len(LEG_YAW_DEG))
    parts = ["torso", *(f"{part}_{leg}" for leg in count for part in ("thigh", "shin"))]
    legs = "".join(_leg(leg, yaw) for leg, yaw in enumerate(LEG_YAW_DEG))
    pairs = "".join(f'<pair geom1="floor" geom2="{part}"/>' for part in parts)
    motors = "".join(f'<motor joint="hip_{leg}"/><motor joint="knee_{leg}"/>' for leg in count)
    sensors = "".join(f'<force site="knee_{leg}"/><torque site="knee_{leg}"/>' for leg in count)
    return f"""
<mujoco model="ant">{SCENERY}
  <compiler angle="degree" autolimits="true"/>{option(TIMESTEP_S, 10)}
  <default>
    <geom density="5" contype="0" conaffinity="0" rgba="0.97 0.38 0.06 1"/>
    <pair friction="1.5 1.5 0.1 0.1 0.1" margin="0.02"/>
    <joint armature="0.01" damping="0.1"/>
    <motor gear="{GEAR_NM}" ctrlrange="-1 1"/>
  </default>
  <worldbody>{GROUND}
    <body name="torso" pos="0 0 {START_HEIGHT_M}">
      <freejoint name="root"/>
      <camera name="side" pos="0 -3 1" xyaxes="1 0 0 0 1 2" mode="trackcom"/>
      <geom name="torso" type="sphere" size="0.25"/>{legs}
    </body>
  </worldbody>
  <contact>{pairs}</contact>
  <actuator>{motors}</actuator>
  <sensor>{sensors}</sensor>
</mujoco>"""


def _leg(leg: int, yaw_deg: float) -> str:
    """A thigh and a shin along the leg's own x axis, and the part of the torso that carries them.

    All legs are the same leg turned about the vertical, so that a larger knee angle points every shin further down.
    """
    x, y = _HIP_M * cos(radians(yaw_deg)), _HIP_M * sin(radians(yaw_deg))
    extended = KNEE_RANGE_DEG[0]
    return f"""
      <geom type="capsule" size="0.08" fromto="0 0 0 {x} {y} 0"/>
      <body name="thigh_{leg}" pos="{x} {y} 0" euler="0 0 {yaw_deg}">
        <joint name="hip_{leg}" axis="0 0 1" range="{HIP_RANGE_DEG[0]} {HIP_RANGE_DEG[1]}"/>
        <geom name="thigh_{leg}" type="capsule" size="0.08" fromto="0 0 0 {_THIGH_M} 0 0"/>
        <body name="shin_{leg}" pos="{_THIGH_M} 0 0" euler="0 {extended} 0">
          <joint name="knee_{leg}" axis="0 1 0" ref="{extended}" range="{extended} {KNEE_RANGE_DEG[1]}"/>
          <geom name="shin_{leg}" type="capsule" size="0.08" fromto="0 0 0 {_SHIN_M} 0 0"/>
          <site name="knee_{leg}"/>
        </body>
      </body>"""
