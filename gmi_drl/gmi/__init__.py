"""Instances: what this machine has, who uses it, and how a share of it is given to a process."""

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
