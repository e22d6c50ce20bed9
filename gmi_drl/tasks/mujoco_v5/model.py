"""gymnasium's model files, changed so that MuJoCo has less to search for in every step."""

import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gmi_drl.errors import MachineError
from gmi_drl.tasks.sim.engine import import_mujoco

FLOOR = "floor"


def gymnasium_mjcf(file: str) -> str:
    """The model in this file of gymnasium's assets, changed to step faster. No bit of any state differs.

    The search for constraint islands is off, because one robot is one island. If the robot's parts cannot collide with
    each other, the pairs that may touch the floor are listed, so that MuJoCo does not search for pairs.

    Raises:
        MachineError: gymnasium, its file, or mujoco is missing.
    """
    text = _asset(file).read_text()
    root = ET.fromstring(text)
    ET.SubElement(ET.SubElement(root, "option"), "flag", island="disable")
    _name_pairs(root, text)
    return ET.tostring(root, encoding="unicode")


def _asset(file: str) -> Path:
    package = find_spec("gymnasium")
    remedy = "pip install 'gmi-drl[gymnasium]'"
    if package is None or package.origin is None:
        raise MachineError(f"tasks mujoco:NAME need gymnasium's models, but gymnasium is not installed. {remedy}")
    path = Path(package.origin).parent / "envs" / "mujoco" / "assets" / file
    if not path.is_file():
        raise MachineError(f"gymnasium has no {path}: its version is too old or too new. {remedy}")
    return path


def _name_pairs(root: ET.Element, text: str) -> None:
    """If no two parts can collide, list the pairs of a part and the floor, with the properties that MuJoCo derives.

    Friction and dimensions are the larger of the two geoms', margins add up, and the solver's parameters are equal.
    """
    mujoco, _ = import_mujoco()
    spec = mujoco.MjSpec.from_string(text)  # this fills in the file's defaults
    floor = spec.geom(FLOOR)
    parts = [geom for geom in spec.geoms if geom.name != FLOOR]
    if any(one.contype & other.conaffinity for one in parts for other in parts):
        return
    contacts = ET.SubElement(root, "contact")
    for part in parts:
        slide, spin, roll = (max(pair) for pair in zip(part.friction, floor.friction, strict=True))
        about = {
            "geom1": FLOOR,
            "geom2": part.name,
            "condim": str(max(part.condim, floor.condim)),
            "friction": _numbers((slide, slide, spin, roll, roll)),
            "margin": _numbers([part.margin + floor.margin]),
            "solref": _numbers(part.solref),
            "solimp": _numbers(part.solimp),
        }
        ET.SubElement(contacts, "pair", about)
    for geom in root.iterfind("worldbody//geom"):
        geom.attrib |= {"contype": "0", "conaffinity": "0"}


def _numbers(values: Any) -> str:
    """Numbers as text, with all their digits."""
    return " ".join(repr(float(value)) for value in values)
