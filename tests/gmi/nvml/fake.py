"""Machines with GPUs, described for the fake NVML library (fake.h, compiled by `compile_library`).

The library answers from files below the folder that the variable FAKE_NVML names, whichever process asks:

    driver, cuda                    versions; no driver: nvmlInit says that none is loaded
    root                            there if callers count as root
    fail/FUNCTION                   "CODE [TIMES [SKIP]]": what that function returns instead
    calls                           there if calls are to be logged; each one a line
    gpus/0/                         name, uuid, pci, memory_total, memory_used (bytes), architecture ("9.0"), cores,
                                    compute_mode, power_mw, utilization_gpu, utilization_memory, numa_cpus (a mask)
    gpus/0/sm_util                  percent; sm_occupancy and dram_bandwidth likewise, of a GPU instance in its folder
    gpus/0/fail/FUNCTION            the same for one GPU
    gpus/0/mig_mode, mig_pending    0 or 1; no mig_mode: a GPU without MIG
    gpus/0/mig_resets               there if a change of the mode waits for a reset, as on Ampere
    gpus/0/mig_profiles/P           "ID NAME SLICES SIZE MEMORY_MIB SMS START...": what GPU instances there may be
    gpus/0/gi/1/                    a GPU instance: name ("1g.18gb"), start, slices, sms, memory_total, memory_used
    gpus/0/gi/1/ci/0/               a compute instance, and so a MIG device: uuid, name, start, slices, sms
    gpus/0/gi/1/ci/0/unseen         there if this process may not open it, as in a container without its node
    gpus/0/nvlink/0                 the other end of a link: "gpu PCI", "switch PCI" or "down"
    gpus/0/ancestor/1               at which level (NVML_TOPOLOGY_*) GPU 0 meets GPU 1
    gpus/0/processes/PID            bytes that a process has there; mps_processes likewise
"""

import ctypes
import shutil
import subprocess
from _ctypes import dlclose
from dataclasses import dataclass
from pathlib import Path

import pytest

from gmi_drl.hardware.gpus import gpu_named
from gmi_drl.hardware.mig_placement import place_on

SONAME = "libnvidia-ml.so.1"
MIB = 2**20


def compile_library(folder: Path) -> Path:
    """Compile every C file that lies here into one library, under the name by which nvidia-ml-py loads NVML."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc to compile the fake NVML library")
    sources = sorted(map(str, Path(__file__).parent.glob("*.c")))
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-format-truncation", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, f"-Wl,-soname,{SONAME}", "-o", folder / SONAME, *sources], check=True, timeout=300)
    return folder / SONAME


@dataclass(frozen=True)
class FakeGpu:
    """A GPU of the catalogue. `mig`: None for MIG mode off, else the profiles of its instances, perhaps none."""

    name: str = "NVIDIA H200"
    mig: tuple[str, ...] | None = None
    used_mib: int = 0
    uuid: str = ""


class FakeNvml:
    """A machine that may be changed while processes ask about it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("driver", "580.95.05")
        self.write("cuda", 13000)
        (root / "gpus").mkdir()

    def write(self, name: str, value: object) -> None:
        """Put one fact into the tree."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")

    def add(self, *gpus: FakeGpu) -> None:
        """Put in more GPUs, each with the next index."""
        for gpu in gpus:
            self._add(len(list((self.root / "gpus").iterdir())), gpu)

    def uuid(self, index: int) -> str:
        """Of a GPU."""
        return (self.root / f"gpus/{index}/uuid").read_text().strip()

    def mig_uuids(self, index: int) -> list[str]:
        """Of the MIG devices of a GPU, in NVML's order."""
        files = (self.root / f"gpus/{index}/gi").glob("*/ci/*/uuid")
        ordered = sorted(files, key=lambda file: (int(file.parts[-4]), int(file.parts[-2])))
        return [file.read_text().strip() for file in ordered]

    def fail(self, function: str, code: int, times: int = -1, skip: int = 0, gpu: int | None = None) -> None:
        """Let a function return an error: always or so many times, after so many calls that work."""
        place = "" if gpu is None else f"gpus/{gpu}/"
        self.write(f"{place}fail/{function}", f"{code} {times} {skip}")

    def nvlink(self, *gpus: int, lanes: int = 4) -> None:
        """Connect every two of these GPUs by so many links."""
        for one in gpus:
            for other in gpus:
                if one != other:
                    for _ in range(lanes):
                        self._link(one, f"gpu {self._pci(other)}")

    def nvswitch(self, *gpus: int, lanes: int = 4) -> None:
        """Connect these GPUs to one switch."""
        for gpu in gpus:
            for _ in range(lanes):
                self._link(gpu, "switch 00000000:C0:00.0")

    def log_calls(self) -> None:
        """From now on remember what is called."""
        (self.root / "calls").write_text("")

    def calls(self) -> list[str]:
        """What was called since `log_calls`: "nvmlShutdown", "nvmlDeviceGetName gpus/0"."""
        return (self.root / "calls").read_text().splitlines()

    def _add(self, index: int, gpu: FakeGpu) -> None:
        known, own = gpu_named(gpu.name), f"gpus/{index}"
        major, minor = int(known.architecture[3:-1]), int(known.architecture[-1])
        cores_each = 64 if known.architecture in ("sm_70", "sm_80") else 128
        self.write(f"{own}/name", gpu.name)
        self.write(f"{own}/uuid", gpu.uuid or f"GPU-{index:04x}aaaa-0000-0000-0000-00000000{index:04x}")
        self.write(f"{own}/pci", self._pci(index))
        self.write(f"{own}/memory_total", known.memory_mib * MIB)
        self.write(f"{own}/memory_used", gpu.used_mib * MIB)
        self.write(f"{own}/architecture", f"{major}.{minor}")
        self.write(f"{own}/cores", known.sms * cores_each)
        self.write(f"{own}/compute_mode", 0)
        self.write(f"{own}/power_mw", 100_000)
        self.write(f"{own}/utilization_gpu", 0)
        if known.mig:
            self.write(f"{own}/mig_mode", int(gpu.mig is not None))
            for number, one in enumerate(known.mig):
                mib = int((one.memory_gib or 1) * 1024)
                facts = 5 + number, one.name, one.slices, one.size, mib, one.sms or 1, *one.starts
                self.write(f"{own}/mig_profiles/{number}", " ".join(map(str, facts)))
            whole = max(one.size for one in known.mig)
            for placed in place_on(known, gpu.mig or ()):
                number = (whole - placed.profile.size + placed.start) // placed.profile.size  # as mig_making.c
                instance = f"{own}/gi/{number}"
                self.write(f"{instance}/name", placed.profile.name)
                self.write(f"{instance}/start", placed.start)
                self.write(f"{instance}/slices", placed.profile.slices)
                self.write(f"{instance}/sms", placed.profile.sms or 1)
                self.write(f"{instance}/memory_total", int((placed.profile.memory_gib or 1) * 1024) * MIB)
                self.write(f"{instance}/ci/0/uuid", f"MIG-{index:04x}bbbb-0000-0000-0000-{number:012x}")
                self.write(f"{instance}/ci/0/name", placed.profile.name)
                self.write(f"{instance}/ci/0/start", 0)
                self.write(f"{instance}/ci/0/slices", placed.profile.slices)
                self.write(f"{instance}/ci/0/sms", placed.profile.sms or 1)

    def _link(self, gpu: int, end: str) -> None:
        folder = self.root / f"gpus/{gpu}/nvlink"
        self.write(f"gpus/{gpu}/nvlink/{len(list(folder.glob('*')))}", end)

    @staticmethod
    def _pci(index: int) -> str:
        return f"00000000:{0x10 + index:02X}:00.0"


class Loaded:
    """The library in this process, until it is closed: whoever asks for NVML by its soname gets what is loaded."""

    def __init__(self, library: Path, patch: pytest.MonkeyPatch) -> None:
        import pynvml

        self._library = ctypes.CDLL(str(library))
        patch.setattr(pynvml, "nvmlLib", None)
        patch.setattr(pynvml, "_nvmlLib_refcount", 0)
        patch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def close(self) -> None:
        """Unload it, so that later tests find what this machine has."""
        import pynvml

        if pynvml.nvmlLib is not None:
            dlclose(pynvml.nvmlLib._handle)
        dlclose(self._library._handle)
