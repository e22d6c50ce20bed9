"""How all models are solved."""


def option(timestep_s: float, iterations: int, more: str = "") -> str:
    """The element `<option>` of a model; `more` are further attributes.

    An elliptic cone, because MuJoCo and MuJoCo Warp build pyramids of friction in different directions. One robot is
    one constraint island, and looking for islands took a tenth of the Ant's time.
    """
    return f"""
  <option timestep="{timestep_s}" integrator="implicitfast" cone="elliptic" solver="Newton" tolerance="1e-6"
          iterations="{iterations}" ls_iterations="{iterations}" {more}>
    <flag island="disable"/>
  </option>"""
