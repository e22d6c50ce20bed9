"""Experience that outlives its iteration: tables and rings to learn from, and files.

`ExperienceDataset` reads what `gmi-drl serve --experience FOLDER` wrote.
"""

from gmi_drl.replay.batch import Batch
from gmi_drl.replay.checkpoint import restore, save
from gmi_drl.replay.client.client import Client
from gmi_drl.replay.client.datasets import ServerDataset
from gmi_drl.replay.episodes import EpisodeSet
from gmi_drl.replay.extensions import Diffusion, Extension, Statistics
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.files.dataset import ExperienceDataset
from gmi_drl.replay.importing.episodes import import_episodes
from gmi_drl.replay.importing.several import import_several
from gmi_drl.replay.limiters import MinSize, Queue, RateLimiter, ReplayTimeoutError, SampleToInsertRatio, Stack
from gmi_drl.replay.ring import Ring, RingBatch
from gmi_drl.replay.selectors import Fifo, Lifo, MaxHeap, MinHeap, Prioritized, Selector, TopK, Uniform
from gmi_drl.replay.server.server import Server
from gmi_drl.replay.storage import Storage, make_storage
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.table import Table
from gmi_drl.replay.table_state import TableState

__all__ = [
    "Batch",
    "Client",
    "Diffusion",
    "EpisodeSet",
    "ExperienceDataset",
    "Extension",
    "Field",
    "Fifo",
    "Lifo",
    "MaxHeap",
    "MinHeap",
    "MinSize",
    "Prioritized",
    "Queue",
    "RateLimiter",
    "ReplayTimeoutError",
    "Ring",
    "RingBatch",
    "SampleToInsertRatio",
    "Selector",
    "Server",
    "ServerDataset",
    "Signature",
    "Stack",
    "Statistics",
    "Storage",
    "Stream",
    "Table",
    "TableState",
    "TopK",
    "Uniform",
    "import_episodes",
    "import_several",
    "make_storage",
    "restore",
    "save",
]
