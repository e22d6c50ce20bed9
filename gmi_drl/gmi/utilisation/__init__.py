"""How busy the GPUs of a run are, and what they draw, as NVML tells it. Needs no torch. Not yet run on a GPU."""

from gmi_drl.gmi.utilisation.readings import Usage
from gmi_drl.gmi.utilisation.sampler import Sampler, gpm_obstacle
from gmi_drl.gmi.utilisation.watched import watched_gpus

__all__ = ["Sampler", "Usage", "gpm_obstacle", "watched_gpus"]
