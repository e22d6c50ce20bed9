"""Trajectories sharded over the ranks that train (GEAR): stored, selected and collected without a server."""

from gmi_drl.comm.links.alone import AloneLink
from gmi_drl.replay.shards.buffer import Buffer
from gmi_drl.replay.shards.folder import open_shards_of_folder
from gmi_drl.replay.shards.opening import open_shards
from gmi_drl.replay.shards.placement import ByPriority, Even, Local, expected_local, plan_placement
from gmi_drl.replay.shards.shards import Shards
from gmi_drl.replay.shards.torch_group import link_by_store, open_shards_of_torch
from gmi_drl.replay.shards.ways import Fifo, Lifo, TopK, Uniform, Weighted

__all__ = [
    "AloneLink",
    "Buffer",
    "ByPriority",
    "Even",
    "Fifo",
    "Lifo",
    "Local",
    "Shards",
    "TopK",
    "Uniform",
    "Weighted",
    "expected_local",
    "link_by_store",
    "open_shards",
    "open_shards_of_folder",
    "open_shards_of_torch",
    "plan_placement",
]
