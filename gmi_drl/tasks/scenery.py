"""What makes pictures of a model readable, and nothing else of it: light, sky and a floor on which motion shows."""

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
"""Belongs into `<mujoco>`; the floor's material is "floor": squares of a metre."""

GROUND = """
    <light name="sun" mode="trackcom" pos="0 0 4" dir="0 0 -1" directional="true" diffuse="0.6 0.6 0.6"/>
    <geom name="floor" type="plane" size="0 0 1" material="floor" rgba="1 1 1 1"/>"""
"""Belongs into `<worldbody>`: the floor, and a light that goes with what moves, as shadows are only drawn near it."""
