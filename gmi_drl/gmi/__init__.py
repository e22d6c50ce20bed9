"""GMIs on this machine: which devices there are, who uses them, and how a process gets a share of one."""

from gmi_drl.gmi.backend import Backend, Instances
from gmi_drl.gmi.claims import claim
from gmi_drl.gmi.devices import Claim, backend_for, claimed, refusals, require_possible
from gmi_drl.gmi.inventory import allowed_cores, this_node
from gmi_drl.gmi.process import ProcessBackend

__all__ = [
    "Backend",
    "Claim",
    "Instances",
    "ProcessBackend",
    "allowed_cores",
    "backend_for",
    "claim",
    "claimed",
    "refusals",
    "require_possible",
    "this_node",
]
