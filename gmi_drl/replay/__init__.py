"""Experience that outlives its iteration. `ExperienceDataset` reads what `gmi-drl serve --experience FOLDER` wrote."""

from gmi_drl.replay.files.dataset import ExperienceDataset

__all__ = ["ExperienceDataset"]
