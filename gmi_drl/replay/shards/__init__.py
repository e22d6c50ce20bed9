"""Trajectories sharded over the ranks that train (GEAR): stored, selected and collected without a server."""

from gmi_drl.comm.links.alone import AloneLink
from gmi_drl.replay.shards.buffer import Buffer
from gmi_drl.replay.shards.opening import open_shards
from gmi_drl.replay.shards.placement import ByPriority, Even, Local, expected_local, plan_placement
from gmi_drl.replay.shards.shards import Shards
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
    "open_shards",
    "plan_placement",
]
