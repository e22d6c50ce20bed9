"""Experience in files: what agents saw, did and got, in shards of safetensors with a JSON index.

`ExperienceDataset` reads what `gmi-drl serve --experience FOLDER` has written.
"""

from gmi_drl.run.experience.block import Block
from gmi_drl.run.experience.dataset import ExperienceDataset
from gmi_drl.run.experience.index import SHARD_BYTES, ExperienceIndex, GMIExperience, Shard, step_bytes
from gmi_drl.run.experience.shards import ShardFiles
from gmi_drl.run.experience.writing import Writing, writing

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
