"""The names of dm-reverb 0.14, for scripts that were written for it: `import gmi_drl.replay.reverb as reverb`."""

from gmi_drl.replay.reverb import checkpointers, errors, item_selectors, rate_limiters, selectors, structured
from gmi_drl.replay.reverb.client import Client
from gmi_drl.replay.reverb.columns import TrajectoryColumn
from gmi_drl.replay.reverb.datasets import TimestepDataset, TrajectoryDataset
from gmi_drl.replay.reverb.errors import DeadlineExceededError, ReverbError
from gmi_drl.replay.reverb.samples import ReplaySample, SampleInfo
from gmi_drl.replay.reverb.server import Server
from gmi_drl.replay.reverb.specs import TensorSpec
from gmi_drl.replay.reverb.tables import Table
from gmi_drl.replay.reverb.trajectory_writer import TrajectoryWriter
from gmi_drl.replay.reverb.writer import Writer

__all__ = [
    "Client",
    "DeadlineExceededError",
    "ReplaySample",
    "ReverbError",
    "SampleInfo",
    "Server",
    "Table",
    "TensorSpec",
    "TimestepDataset",
    "TrajectoryColumn",
    "TrajectoryDataset",
    "TrajectoryWriter",
    "Writer",
    "checkpointers",
    "errors",
    "item_selectors",
    "rate_limiters",
    "selectors",
    "structured",
]
