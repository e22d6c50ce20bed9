"""Experience in files: what agents saw, did and got, in shards of safetensors with a JSON index.

`ExperienceDataset` reads what `gmi-drl serve --experience FOLDER` has written.
"""

from gmi_drl.replay.files.block import Block
from gmi_drl.replay.files.dataset import ExperienceDataset
from gmi_drl.replay.files.index import SHARD_BYTES, ExperienceIndex, GMIExperience, Shard, step_bytes
from gmi_drl.replay.files.shards import ShardFiles
from gmi_drl.replay.files.writer import Writing, writing

__all__ = [
    "SHARD_BYTES",
    "Block",
    "ExperienceDataset",
    "ExperienceIndex",
    "GMIExperience",
    "Shard",
    "ShardFiles",
    "Writing",
    "step_bytes",
    "writing",
]
