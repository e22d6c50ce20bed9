"""Parts of another package, for tests."""

from importlib import import_module

ENTRY = """
from gmi_drl.backends import BackendEntry
ENTRY = BackendEntry("toy", "as process does, one cut at a time", "toy_backend:Toy", coexists={coexists})
"""
BACKEND = """
from gmi_drl.gmi import ProcessBackend

class Toy(ProcessBackend):
    cuts = alive = most = 0  # of all

    def cut(self, layout):
        super().cut(layout)
        Toy.cuts += 1
        Toy.alive += 1
        Toy.most = max(Toy.most, Toy.alive)

    def close(self):
        super().close()
        Toy.alive -= 1
"""


def install_backend(install, coexists=False):
    """The backend "toy": it counts its cuts, those that are `alive`, and the `most` that were at once."""
    install(
        {"gmi_drl.backends": "toy = toy_entry:ENTRY"},
        {"toy_entry": ENTRY.format(coexists=coexists), "toy_backend": BACKEND},
    )
    return import_module("toy_backend").Toy
