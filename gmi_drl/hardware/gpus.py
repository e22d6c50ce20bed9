"""The catalogue of GPUs by name: what a node file may leave out. Pure data.

Names are NVML's. Compute capability: NVIDIA's "CUDA GPU Compute Capability". SMs: from `nvidia-smi mig -lgip` or CUDA
(device properties in OpenXLA's target_config/specs and in reports of users), or the number of RT cores in NVIDIA's data
sheets, one for each SM. Memory: the total of `nvidia-smi`, up to 6 % below the nominal size, since ECC and the driver
take some.
"""

import re
from dataclasses import dataclass

from gmi_drl.errors import UsageError, did_you_mean
from gmi_drl.hardware import mig_profiles
from gmi_drl.hardware.mig_profiles import MigProfile
from gmi_drl.units import alternatives


@dataclass(frozen=True)
class Gpu:
    """A model of GPU.

    Args:
        names: Its names; the first is NVML's name without "NVIDIA".
        architecture: The name for CUDA's compilers, e.g. "sm_80".
        sms: Streaming multiprocessors.
        memory_mib: Its memory, as the driver reports it.
        mig: Its MIG profiles; empty without MIG.
    """

    names: tuple[str, ...]
    architecture: str
    sms: int
    memory_mib: int
    mig: tuple[MigProfile, ...] = ()

    @property
    def name(self) -> str:
        """NVML's name, without "NVIDIA"."""
        return self.names[0]

    @property
    def memory_gib(self) -> float:
        """Its memory in GiB."""
        return self.memory_mib / 1024

    def profile(self, name: str) -> MigProfile:
        """The MIG profile of this name.

        Raises:
            UsageError: If it has none of that name, with the nearest one.
        """
        profiles = {profile.name: profile for profile in self.mig}
        if name in profiles:
            return profiles[name]
        if not profiles:
            raise UsageError(f"{self.name} ({self.architecture}) has no MIG: leave its profiles out")
        raise UsageError(f"{self.name} has no MIG profile {name!r}{did_you_mean(name, profiles)}")


CATALOGUE = (
    Gpu(("Tesla V100-SXM2-16GB",), "sm_70", 80, 16160),
    Gpu(("Tesla V100-PCIE-16GB",), "sm_70", 80, 16160),
    Gpu(("Tesla V100-SXM2-32GB",), "sm_70", 80, 32510),
    Gpu(("Tesla V100-PCIE-32GB",), "sm_70", 80, 32510),
    Gpu(("A100-SXM4-40GB",), "sm_80", 108, 40960, mig_profiles.A100_40),
    Gpu(("A100-PCIE-40GB",), "sm_80", 108, 40960, mig_profiles.A100_40),
    Gpu(("A100-SXM4-80GB",), "sm_80", 108, 81920, mig_profiles.A100_80),
    Gpu(("A100 80GB PCIe", "A100-PCIE-80GB"), "sm_80", 108, 81920, mig_profiles.A100_80),
    Gpu(("A30",), "sm_80", 56, 24576, mig_profiles.A30),
    Gpu(("A10",), "sm_86", 72, 23028),
    Gpu(("A40",), "sm_86", 84, 46068),
    Gpu(("RTX A6000",), "sm_86", 84, 49140),
    Gpu(("GeForce RTX 3090",), "sm_86", 82, 24576),
    Gpu(("L4",), "sm_89", 58, 23034),
    Gpu(("L40",), "sm_89", 142, 46068),
    Gpu(("L40S",), "sm_89", 142, 46068),
    Gpu(("RTX 6000 Ada Generation", "RTX 6000 Ada"), "sm_89", 142, 49140),
    Gpu(("GeForce RTX 4090",), "sm_89", 128, 24564),
    Gpu(("H100 80GB HBM3", "H100 SXM", "H100-SXM5-80GB"), "sm_90", 132, 81559, mig_profiles.H100_SXM),
    Gpu(("H100 PCIe",), "sm_90", 114, 81559, mig_profiles.H100_PCIE),
    Gpu(("H100 NVL",), "sm_90", 132, 95830, mig_profiles.H100_NVL),
    Gpu(("GH200 480GB", "GH200 120GB"), "sm_90", 132, 97871, mig_profiles.GH200_96),
    Gpu(("H200",), "sm_90", 132, 143771, mig_profiles.H200),
    Gpu(("H200 NVL",), "sm_90", 132, 143771, mig_profiles.H200),
    Gpu(("B200",), "sm_100", 148, 183359, mig_profiles.B200),
    Gpu(("GB200",), "sm_100", 152, 189471, mig_profiles.GB200),
    Gpu(("GeForce RTX 5090",), "sm_120", 170, 32607),
    Gpu(
        (
            "RTX PRO 6000 Blackwell Server Edition",
            "RTX PRO 6000 Blackwell Workstation Edition",
            "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            "RTX PRO 6000 Blackwell",
        ),
        "sm_120",
        188,
        97887,
        mig_profiles.RTX_PRO_6000,
    ),
)
"""The known GPUs. For others a node file gives the memory."""


def _key(name: str) -> str:
    """The name in lower case, with single spaces, without brand names."""
    words = re.split(r"[\s_-]+", name.lower())
    return " ".join(word for word in words if word not in ("", "nvidia", "geforce", "tesla"))


def is_called(model: str, name: str) -> bool:
    """Whether a model has this name: one of its names begins with these words, as "H100" for all H100."""
    gpu = find_gpu(model)
    names = (model, *(gpu.names if gpu else ()))
    return any(f"{_key(known)} ".startswith(f"{_key(name)} ") for known in names)


_BY_KEY = {_key(name): gpu for gpu in CATALOGUE for name in gpu.names}


def find_gpu(name: str) -> Gpu | None:
    """The GPU of this name, with spaces or dashes, with or without "NVIDIA", in any case; None if unknown.

    None also for a name that several models share, such as "A100", and for a MIG instance.
    """
    return _BY_KEY.get(_key(name))


def gpu_named(name: str) -> Gpu:
    """As `find_gpu`, but it must exist.

    Raises:
        UsageError: If it is not in the catalogue, with the likely ones.
    """
    if (gpu := find_gpu(name)) is not None:
        return gpu
    key = _key(name)
    longer = [gpu.name for gpu in CATALOGUE if any(_key(known).startswith(key) for known in gpu.names)]
    meant = f"; it may be {alternatives(longer)}" if longer else did_you_mean(key, _BY_KEY)
    raise UsageError(f"there is no GPU {name!r} in the catalogue{meant}")
