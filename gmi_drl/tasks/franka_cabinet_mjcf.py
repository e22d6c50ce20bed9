"""A Franka Panda before a cabinet with one drawer, as MJCF: capsules, boxes and a cylinder.

The arm has the lengths and joint limits that the maker publishes (Denavit-Hartenberg parameters of the Panda: d1 0.333,
d3 0.316, a4 0.0825, a5 -0.0825, d5 0.384, a7 0.088, flange 0.107 m; hand 0.1034 m from the flange to the grasp). The
arm's gains, the drawer's damping and the robot's place are those of FrankaCabinet in IsaacGymEnvs. The cabinet is ours,
and so are the fingers' motors: 2000 N/m hold the bar with 20 N, and with 0.5 kg and 200 N s/m they do not rattle on it.
"""

from math import radians

from gmi_drl.tasks.mjcf_parts import GROUND, SCENERY, option

TIMESTEP_S = 1 / 120
FINGER_RANGE_M = (0.0, 0.04)
DRAWER_RANGE_M = (0.0, 0.4)
ARM_RANGES_RAD = (
    (-2.8973, 2.8973),
    (-1.7628, 1.7628),
    (-2.8973, 2.8973),
    (-3.0718, -0.0698),
    (-2.8973, 2.8973),
    (-0.0175, 3.7525),
    (-2.8973, 2.8973),
)
JOINT_RANGES = (*ARM_RANGES_RAD, FINGER_RANGE_M, FINGER_RANGE_M)
"""Lower and upper limit of each of the robot's joints: arm in rad, left and right finger in m."""

HANDLE_M = (0.25, 0.0, 0.65)
"""Middle of the bar in the world while the drawer is closed. The drawer opens along x."""

_BAR_RADIUS_M = 0.01
_FINGER_RADIUS_M = 0.01
_BAR_FROM_FRONT_M = 0.05


def franka_cabinet_mjcf() -> str:
    """The model: an arm of 7 hinges, two sliding fingers, all moved by position motors, and a drawer on a slide.

    There is no gravity: it would move neither the drawer, which slides horizontally, nor the robot, whose weight is
    compensated in IsaacGymEnvs, too. Fingers and hand collide with the bar, fingers with the drawer's front, and
    nothing else collides.
    """
    fingers = ("left_finger", "right_finger")
    pairs = "".join(f'<pair geom1="{part}" geom2="bar"/>' for part in (*fingers, "hand"))
    pairs += "".join(f'<pair geom1="{finger}" geom2="front"/>' for finger in fingers)
    motors = "".join(f'<position joint="joint_{joint}" kp="400" kv="80"/>' for joint in range(1, 8))
    motors += "".join(f'<position joint="{finger}" kp="2000"/>' for finger in fingers)
    sensors = "".join(f'<{kind} objtype="site" objname="grasp"/>' for kind in ("framepos", "framezaxis", "frameyaxis"))
    return f"""
<mujoco model="franka_cabinet">{SCENERY}
  <compiler angle="radian" autolimits="true"/>{option(TIMESTEP_S, 15, 'gravity="0 0 0"')}
  <default>
    <geom density="1000" contype="0" conaffinity="0" rgba="0.93 0.93 0.95 1"/>
    <pair friction="1 1 0.01 0.001 0.001"/>
    <position inheritrange="1"/>
    <default class="dark"><geom rgba="0.2 0.21 0.24 1"/></default>
    <default class="wood"><geom density="600" rgba="0.72 0.53 0.35 1"/></default>
  </default>
  <worldbody>{GROUND}
    <camera name="side" pos="1.5 -1.6 1.2" xyaxes="0.84 0.54 0 -0.17 0.27 0.95"/>{_cabinet()}{_robot()}
  </worldbody>
  <contact>{pairs}</contact>
  <actuator>{motors}</actuator>
  <sensor>{sensors}</sensor>
</mujoco>"""


def _cabinet() -> str:
    """A body with a hole at the top, and a drawer in it; walls are 1 cm thick. The drawer's frame is the bar's middle.

    Its front is in the plane of the cabinet's. It opens along x, which is out of the cabinet.
    """
    x, _, z = HANDLE_M
    front = x - _BAR_FROM_FRONT_M
    post = _BAR_FROM_FRONT_M
    return f"""
    <body name="cabinet" pos="{front} 0 {z}" childclass="wood">
      <geom type="box" size="0.25 0.3 {(z - 0.1) / 2}" pos="-0.25 0 {-(z + 0.1) / 2}"/>
      <geom type="box" size="0.25 0.3 0.01" pos="-0.25 0 0.11"/>
      <geom type="box" size="0.25 0.01 0.1" pos="-0.25 0.29 0"/>
      <geom type="box" size="0.25 0.01 0.1" pos="-0.25 -0.29 0"/>
      <geom type="box" size="0.01 0.28 0.1" pos="-0.49 0 0"/>
    </body>
    <body name="drawer" pos="{x} 0 {z}" childclass="wood">
      <joint name="drawer" type="slide" axis="1 0 0" range="{DRAWER_RANGE_M[0]} {DRAWER_RANGE_M[1]}" damping="10"/>
      <geom name="front" type="box" size="0.01 0.275 0.09" pos="{-post - 0.01} 0 0"/>
      <geom type="box" size="0.2 0.26 0.005" pos="{-post - 0.22} 0 -0.08"/>
      <geom type="box" size="0.2 0.005 0.04" pos="{-post - 0.22} 0.255 -0.045"/>
      <geom type="box" size="0.2 0.005 0.04" pos="{-post - 0.22} -0.255 -0.045"/>
      <geom name="bar" type="capsule" size="{_BAR_RADIUS_M}" fromto="0 -0.1 0 0 0.1 0" class="dark"/>
      <geom type="capsule" size="0.006" fromto="{-post} -0.1 0 0 -0.1 0" class="dark"/>
      <geom type="capsule" size="0.006" fromto="{-post} 0.1 0 0 0.1 0" class="dark"/>
    </body>"""


def _robot() -> str:
    """The chain of links. Every joint turns about its link's z axis, and each link hangs in the one before it."""
    links = (  # place and turn about x in the link before, and capsules (radius, from, to) in the link itself
        ("0 0 0.333", 0, (("0.06", "0 0 -0.14 0 0 0"), ("0.06", "0 -0.04 0 0 0.04 0"))),
        ("0 0 0", -90, (("0.055", "0 0 0 0 -0.19 0"),)),
        ("0 -0.316 0", 90, (("0.055", "0 0 -0.07 0 0 0"), ("0.05", "0 0 0 0.0825 0 0"))),
        ("0.0825 0 0", 90, (("0.05", "0 0 -0.03 0 0 0.03"), ("0.048", "0 0 0 -0.0825 0.08 0"))),
        ("-0.0825 0.384 0", -90, (("0.045", "0 0 -0.26 0 0 0"),)),
        ("0 0 0", 90, (("0.045", "0 0 -0.02 0 0 0.02"), ("0.042", "0 0 0 0.088 0 0"))),
        ("0.088 0 0", 90, (("0.04", "0 0 0 0 0 0.07"),)),
    )
    inside = _hand()
    for number, (place, turn, capsules) in reversed(list(enumerate(links, 1))):
        low, high = ARM_RANGES_RAD[number - 1]
        shade = ' class="dark"' if number in (4, 6) else ""
        geoms = "".join(f'<geom type="capsule" size="{r}" fromto="{line}"{shade}/>' for r, line in capsules)
        inside = f"""
    <body name="link_{number}" pos="{place}" euler="{radians(turn)} 0 0">
      <joint name="joint_{number}" range="{low} {high}"/>{geoms}{inside}
    </body>"""
    return f"""
    <body name="base" pos="1 0 0" euler="0 0 {radians(180)}">
      <geom type="cylinder" size="0.1 0.02" pos="0 0 0.02"/>
      <geom type="capsule" size="0.065" fromto="0 0 0.06 0 0 0.13"/>{inside}
    </body>"""


def _hand() -> str:
    """The hand, its z axis forwards; the fingers move along its y axis, 0 being closed."""
    low, high = FINGER_RANGE_M
    fingers = "".join(
        f"""
      <body name="{side}_finger" pos="0 0 0.0584">
        <joint name="{side}_finger" type="slide" axis="0 {way} 0" range="{low} {high}" armature="0.5" damping="200"/>
        <geom name="{side}_finger" type="capsule" size="{_FINGER_RADIUS_M}" class="dark"
              fromto="0 {way * _FINGER_RADIUS_M} 0.01 0 {way * _FINGER_RADIUS_M} 0.055"/>
      </body>"""
        for side, way in (("left", 1), ("right", -1))
    )
    return f"""
    <body name="hand" pos="0 0 0.107" euler="0 0 {radians(-45)}">
      <geom name="hand" type="capsule" size="0.03" fromto="0 -0.07 0.03 0 0.07 0.03"/>
      <site name="grasp" pos="0 0 0.1034"/>{fingers}
    </body>"""
