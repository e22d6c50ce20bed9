"""gymnasium's model files, with what they leave to be looked for in every step said beforehand."""

import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gmi_drl.errors import MachineError
from gmi_drl.tasks.sim.engine import import_mujoco

FLOOR = "floor"


def gymnasium_mjcf(file: str) -> str:
    """The model of gymnasium in this file of its assets, sooner stepped; no bit of any state differs.

    Constraint islands are off: one robot is one island. Where the robot's parts cannot meet each other, what may touch
    the floor is named as pairs. Looking for both takes time in every step.

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
        raise MachineError(f"tasks of mujoco:NAME need gymnasium's models, and it is not installed. {remedy}")
    path = Path(package.origin).parent / "envs" / "mujoco" / "assets" / file
    if not path.is_file():
        raise MachineError(f"gymnasium has no {path}: it is too old or too new. {remedy}")
    return path


def _name_pairs(root: ET.Element, text: str) -> None:
    """Name the contacts with the floor, with the properties that MuJoCo derives from the two geoms, if all are such.

    Friction and dimensions are the greater, margins add up, and the solver's parameters are alike.
    """
    mujoco, _ = import_mujoco()
    spec = mujoco.MjSpec.from_string(text)  # the defaults of the file are filled in
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
    """With all their digits."""
    return " ".join(repr(float(value)) for value in values)
