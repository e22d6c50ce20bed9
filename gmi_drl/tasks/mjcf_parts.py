"""MJCF that all our models share: the solver's options, and light, sky and floor, which only pictures show."""

SCENERY = """
  <visual>
    <headlight ambient="0.35 0.35 0.35" diffuse="0.35 0.35 0.35" specular="0 0 0"/>
    <quality shadowsize="1024" offsamples="4"/>
    <map shadowclip="0.7"/>
    <rgba haze="0.78 0.85 0.92 1"/>
  </visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" width="64" height="384" rgb1="0.45 0.6 0.8" rgb2="0.9 0.94 1"/>
    <texture name="floor" type="2d" builtin="checker" width="128" height="128" rgb1=".33 .4 .47" rgb2=".4 .47 .55"/>
    <material name="floor" texture="floor" texrepeat="1 1" texuniform="true" specular="0"/>
  </asset>"""
"""Goes into `<mujoco>`. The floor's material is "floor": squares of a metre."""

GROUND = """
    <light name="sun" mode="trackcom" pos="0 0 4" dir="0 0 -1" directional="true" diffuse="0.6 0.6 0.6"/>
    <geom name="floor" type="plane" size="0 0 1" material="floor" rgba="1 1 1 1"/>"""
"""Goes into `<worldbody>`: the floor, and a light that follows the robot, because shadows are drawn only near it."""


def option(timestep_s: float, iterations: int, more: str = "") -> str:
    """The element `<option>` of a model, with further attributes in `more`.

    The friction cone is elliptic, because MuJoCo and MuJoCo Warp build pyramidal cones in different directions. The
    search for constraint islands is off: one robot is one island.
    """
    return f"""
  <option timestep="{timestep_s}" integrator="implicitfast" cone="elliptic" solver="Newton" tolerance="1e-6"
          iterations="{iterations}" ls_iterations="{iterations}" {more}>
    <flag island="disable"/>
  </option>"""
