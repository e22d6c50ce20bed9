"""Where steps lie: in memory of this process, in shared or pinned memory, on a GPU, or in a file."""

from gmi_drl.replay.storage.base import Storage
from gmi_drl.replay.storage.placements import PLACEMENTS, make_storage

__all__ = ["PLACEMENTS", "Storage", "make_storage"]
