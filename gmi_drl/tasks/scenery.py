"""What makes pictures of a model readable, and nothing else of it: light, sky and a floor on which motion shows."""

SCENERY = """
  <visual>
    <headlight ambient="0.35 0.35 0.35" diffuse="0.35 0.35 0.35" specular="0 0 0"/>
    <quality shadowsize="1024" offsamples="4"/>
    <map shadowclip="0.7"/>
    <rgba haze="0.78 0.85 0.92 1"/>
  </visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0.45 0.6 0.8" rgb2="0.9 0.94 0.97" width="64" height="384"/>
    <texture name="floor" type="2d" builtin="checker" rgb1="0.33 0.4 0.47" rgb2="0.4 0.47 0.55" width="256" height="256"/>
    <material name="floor" texture="floor" texrepeat="0.5 0.5" texuniform="true" specular="0"/>
  </asset>"""
"""Belongs into `<mujoco>`; the floor's material is "floor": squares of a metre."""

LIGHT = """
    <light name="sun" mode="trackcom" pos="0 0 4" dir="0 0 -1" directional="true" diffuse="0.6 0.6 0.6"/>"""
"""Belongs into `<worldbody>`; it goes with what moves, as shadows are only drawn near it."""
