"""Instances: what this machine has, who uses it, and how a share of it is given to a process."""

from gmi_drl.gmi.backend import Backend
from gmi_drl.gmi.claims import claim
from gmi_drl.gmi.cutting import backend_for, claimed, cut
from gmi_drl.gmi.inventory import allowed_cores, this_node
from gmi_drl.gmi.process import ProcessBackend

__all__ = ["Backend", "ProcessBackend", "allowed_cores", "backend_for", "claim", "claimed", "cut", "this_node"]
