"""Trajectories sharded over the ranks that train (GEAR): stored, selected and collected without a server."""

from gmi_drl.comm.links.alone import AloneLink
from gmi_drl.replay.shards.buffer import Buffer
from gmi_drl.replay.shards.opening import open_shards
from gmi_drl.replay.shards.shards import Shards
from gmi_drl.replay.shards.ways import Fifo, Lifo, TopK, Uniform, Weighted

__all__ = ["AloneLink", "Buffer", "Fifo", "Lifo", "Shards", "TopK", "Uniform", "Weighted", "open_shards"]
