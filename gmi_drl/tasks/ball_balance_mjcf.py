"""A tray on three legs, and a ball, as MJCF: capsules, a cylinder and a sphere.

Sizes, densities and gains are those of BallBalance in IsaacGymEnvs, which builds its robot from primitives, too. Three
numbers are ours: armature 0.05 kg m2 and damping 0.1 N m s/rad in the joints, and at most 40 N m in the knees, ten
times what carries tray and ball. Without armature these stiff motors shake the light legs apart. Without the limit,
three targets that no posture satisfies pull the feet half a metre off their places.
"""

from math import cos, radians, sin

from gmi_drl.tasks.mjcf_parts import GROUND, SCENERY, option

TIMESTEP_S = 1 / 200
BALL_RADIUS_M = 0.1
KNEE_RANGE_DEG = (-70, 90)
KNEE_RANGE_RAD = (radians(KNEE_RANGE_DEG[0]), radians(KNEE_RANGE_DEG[1]))
"""0 is a right angle, 90 degrees a straight leg."""

LEG_YAW_DEG = (0, 120, 240)

_LEG_M = 0.36
_LEG_RADIUS_M = 0.02
_TRAY_HALF_M = 0.01
_HIP_FROM_CENTRE_M = 0.4
_DROP_M = _LEG_M / 2**0.5
TRAY_HEIGHT_M = 2 * _DROP_M + 2 * _LEG_RADIUS_M + _TRAY_HALF_M
BALL_START_M = 1.5

START_QPOS = (0, 0, TRAY_HEIGHT_M, 1, 0, 0, 0, *(0,) * 2 * len(LEG_YAW_DEG), 0, 0, BALL_START_M, 1, 0, 0, 0)
"""The model's initial state: tray, hip 0, knee 0, hip 1, ..., ball."""


def ball_balance_mjcf() -> str:
    """The model: a free tray, three legs of a free hip and a driven knee, feet held where they stand, a free ball.

    Each foot turns about its place on the floor, so the knees move the tray only in height, roll and pitch. Only ball
    and tray collide: a ball that has left the tray ends the episode before it reaches anything else.
    """
    count = range(len(LEG_YAW_DEG))
    legs = "".join(_leg(leg, yaw) for leg, yaw in enumerate(LEG_YAW_DEG))
    feet = "".join(f'<connect body1="lower_{leg}" anchor="{_DROP_M} 0 {-_DROP_M}"/>' for leg in count)
    motors = "".join(f'<position joint="knee_{leg}"/>' for leg in count)
    sensors = "".join(f'<{kind} site="hip_{leg}"/>' for kind in ("force", "torque") for leg in count)
    return f"""
<mujoco model="ball_balance">{SCENERY}
  <compiler angle="degree" autolimits="true"/>{option(TIMESTEP_S, 15)}
  <default>
    <geom density="1000" contype="0" conaffinity="0" rgba="0.25 0.28 0.33 1"/>
    <joint axis="0 1 0" armature="0.05" damping="0.1"/>
    <position kp="4000" kv="100" inheritrange="1" forcerange="-40 40"/>
  </default>
  <worldbody>{GROUND}
    <camera name="side" pos="0 -2.2 1.2" xyaxes="1 0 0 0 0.31 1"/>
    <body name="tray" pos="0 0 {TRAY_HEIGHT_M}">
      <freejoint name="root"/>
      <geom name="tray" type="cylinder" size="0.5 {_TRAY_HALF_M}" density="100" rgba="0.85 0.87 0.9 1"/>{legs}
    </body>
    <body name="ball" pos="0 0 {BALL_START_M}">
      <freejoint name="ball"/>
      <geom name="ball" type="sphere" size="{BALL_RADIUS_M}" density="200" rgba="0.97 0.38 0.06 1"/>
    </body>
  </worldbody>
  <contact><pair geom1="tray" geom2="ball"/></contact>
  <equality>{feet}</equality>
  <actuator>{motors}</actuator>
  <sensor>{sensors}</sensor>
</mujoco>"""


def _leg(leg: int, yaw_deg: float) -> str:
    """A leg in its own vertical plane: inwards to the knee and outwards again to the foot, each at 45 degrees.

    x points outwards. A larger hip angle lifts the knee, a larger knee angle straightens the leg.
    """
    x, y = _HIP_FROM_CENTRE_M * cos(radians(yaw_deg)), _HIP_FROM_CENTRE_M * sin(radians(yaw_deg))
    return f"""
      <body name="upper_{leg}" pos="{x} {y} {-_TRAY_HALF_M - _LEG_RADIUS_M}" euler="0 0 {yaw_deg}">
        <joint name="hip_{leg}" range="-45 45"/>
        <geom type="capsule" size="{_LEG_RADIUS_M}" fromto="0 0 0 {-_DROP_M} 0 {-_DROP_M}"/>
        <site name="hip_{leg}"/>
        <body name="lower_{leg}" pos="{-_DROP_M} 0 {-_DROP_M}">
          <joint name="knee_{leg}" range="{KNEE_RANGE_DEG[0]} {KNEE_RANGE_DEG[1]}"/>
          <geom type="capsule" size="{_LEG_RADIUS_M}" fromto="0 0 0 {_DROP_M} 0 {-_DROP_M}" rgba="0.1 0.5 0.75 1"/>
        </body>
      </body>"""
