"""How busy the GPUs of a run are and how much power they draw, by NVML. Imports no torch."""

from gmi_drl.gmi.utilisation.readings import Usage
from gmi_drl.gmi.utilisation.sampler import Sampler, gpm_obstacle, watched_gpus

__all__ = ["Sampler", "Usage", "gpm_obstacle", "watched_gpus"]
