"""Questions on what a GPU and its driver can do for GMIs; each is a stage of `gpu_day.py`.

    python gpu_questions.py NAME [ARGUMENT ...]

Needs one idle GPU, no network, and no rights except to start an MPS daemon. The modes of the GPU stay as they are. Each
question prints each fact at once as a line of JSON, so that facts are kept if it then fails or hangs. `nccl` takes a
newer NCCL from the environment: FIRST_LIGHT_NCCL=/path/to/libnccl.so.2.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import stages
from gpu_question_gmis import case, latency, sharing, solo
from gpu_question_helpers import STORE, asked, attempt, folder, has_mps, mps, say, ways

from gmi_drl.layout.environment import NO_MPS, without_mps

LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
CLIENTS = Path(__file__).with_name("gpu_question_clients.py")
ROOT = Path(__file__).resolve().parents[2]
MULTI_RANK_NCCL = (2, 30)
"""From this version several ranks may share a GPU."""
ON_CORES = 5.0
"""The factor on deadlines in a rehearsal, where two cores start eight clients."""
WORK_S = 6.0
"""Seconds that clients work beside one that faults half way through."""
CHECK_S = 60.0
"""Seconds for checking the cache of kernels."""


def main() -> None:
    """Run the named question."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # too late, as its daemon ends first
    os.environ.update(LOOPBACK)
    name, *arguments = sys.argv[1:]
    QUESTIONS[name](*arguments)


@dataclass
class Clients:
    """Processes of one kind on the GPU."""

    processes: list[subprocess.Popen[bytes]]
    files: list[Path]

    def told(self, seconds: float) -> list[dict[str, Any]]:
        """The facts of each client when all have ended or after `seconds` (more on cores), and how it ended."""
        end, all_told = time.monotonic() + seconds * (ON_CORES if stages.REHEARSAL in os.environ else 1), []
        for process, file in zip(self.processes, self.files, strict=True):
            try:
                code: int | str = process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                code = stages.LATE
            saw, rest = stages.facts(file.read_text(errors="replace"))
            all_told.append(saw if code == 0 else {**saw, "exit": code, "last_words": rest[-4:]})
        return all_told


def start(kind: str, count: int, more: dict[str, str], *arguments: object) -> Clients:
    """Start `count` clients, with a file by which they can form a group."""
    place = folder("clients-")
    processes, files = [], []
    for rank in range(count):
        line = [sys.executable, str(CLIENTS), kind, str(rank), str(count), *map(str, arguments)]
        files.append(place / str(rank))
        with files[-1].open("wb") as file:
            own = without_mps(os.environ) | {STORE: str(place / "store")} | more
            processes.append(subprocess.Popen(line, env=own, stdout=file, stderr=subprocess.STDOUT))
    return Clients(processes, files)


def machine() -> None:
    """Print what the driver reports of its GPU, and where the program of MPS lies."""
    attempt("nvidia_smi", partial(_printed, ["nvidia-smi"]))
    say(mps_control=stages.find_program(stages.MPS_CONTROL))


def kernels(task: str) -> None:
    """Print how many of MuJoCo Warp's modules a training loads, and how many of them are not in the cache."""
    attempt("kernels", partial(_in_cache, task))


def _in_cache(task: str) -> str:
    command = [sys.executable, "-m", "tools.gpu_kernels", "--check", task]
    hidden = os.environ | {"CUDA_VISIBLE_DEVICES": ""}  # the tool fakes a GPU and keeps arrays on the CPU
    ended = subprocess.run(command, cwd=ROOT, env=hidden, capture_output=True, text=True, timeout=CHECK_S)
    return (ended.stdout or ended.stderr).strip().splitlines()[-1]


def daemon() -> None:
    """Question 1: whether an MPS daemon starts and serves a client."""
    query = [
        "nvidia-smi",
        "--query-gpu=name,uuid,driver_version,compute_mode,mig.mode.current",
        "--format=csv,noheader",
    ]
    attempt("gpu", partial(_printed, query))
    if not has_mps():
        return
    with mps() as found:
        attempt("version", partial(asked, found, "version"))
        say(client=start("sms", 1, found, 0.2).told(25))
        attempt("servers", partial(asked, found, "get_server_list"))
    attempt("static_partitions", static_partitions)


def static_partitions() -> str:
    """Print whether the daemon can partition SMs."""
    uuid = _printed(["nvidia-smi", "-L"]).partition("UUID: ")[2].partition(")")[0]
    with mps("-S") as found:
        return asked(found, f"sm_partition add {uuid} 2") + " | " + asked(found, "lspart")


def _printed(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=15).stdout.strip()


def halves() -> None:
    """Question 2: whether MPS limits two clients to half of the SMs, and to different ones."""
    for name, found in ways():
        cap = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"} if name == "mps" else {}
        told = start("sms", 2, found | cap, 2.0).told(35)
        seen = [set(one["sms"]) for one in told if isinstance(one.get("sms"), list)]
        say(**{name: [one | {"sms": len(one["sms"])} if isinstance(one.get("sms"), list) else one for one in told]})
        if len(seen) == len(told):
            say(**{f"{name}_shared_sms": len(set.intersection(*seen))})


def ipc(kind: str) -> None:
    """Question 3: whether processes can share memory by torch (`ipc`), or by Warp, with its graphs (`warp`)."""
    for name, found in ways():
        say(**{name: start(kind, 1, found).told(40)[0]})


def registration() -> None:
    """Print whether CUDA registers memory that processes share."""
    say(**start("registration", 1, {}).told(25)[0])


def symmetric() -> None:
    """Question 4: whether symmetric memory works, and the speed of its sums."""
    _for_sizes("symmetric", {"TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1"})


def nccl() -> None:
    """Question 5: whether NCCL takes several ranks on one GPU."""
    newer = os.environ.get("FIRST_LIGHT_NCCL")
    more = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": "4"} | ({"LD_PRELOAD": newer} if newer else {})
    told = start("nccl_version", 1, more).told(25)[0]
    say(**told)
    if "nccl" in told and tuple(told["nccl"]) < MULTI_RANK_NCCL:
        have, need = (".".join(map(str, version)) for version in (told["nccl"], MULTI_RANK_NCCL))
        say(several_ranks=f"NCCL {have} takes one rank per GPU, {need} is needed: name a newer one in FIRST_LIGHT_NCCL")
    elif "nccl" in told:
        _for_sizes("nccl", more)


def _for_sizes(kind: str, more: dict[str, str]) -> None:
    """Run with two clients in plain sharing, and with two, four and eight under MPS."""
    for name, found in ways():
        for size in (2, 4, 8) if name == "mps" else (2,):
            say(**{f"{name} k={size}": start(kind, size, found | more).told(25)[0]})


def green() -> None:
    """Question 6: whether green contexts limit kernels to their SMs."""
    say(**start("green", 1, {}).told(35)[0])


def gpm() -> None:
    """Question 7: whether GPM reports how busy the GPU is."""
    say(**start("gpm", 1, {}).told(25)[0])


def fault() -> None:
    """Question 9: whether a fault of one client ends others."""
    for name, found in ways():
        peer, outsider = start("work", 1, found, WORK_S), start("work", 1, NO_MPS, WORK_S)
        say(**{f"{name}_faulty": start("fault", 1, found, WORK_S / 2).told(20)})
        say(**{f"{name}_peer": peer.told(20), f"{name}_without_mps": outsider.told(20)})
        say(**{f"{name}_newcomer": start("work", 1, found, 1.0).told(15)})


QUESTIONS: dict[str, Callable[..., None]] = {
    "machine": machine,
    "kernels": kernels,
    "daemon": daemon,
    "halves": halves,
    "ipc": ipc,
    "registration": registration,
    "symmetric": symmetric,
    "nccl": nccl,
    "green": green,
    "gpm": gpm,
    "latency": latency,
    "fault": fault,
    "sharing": sharing,
    "solo": solo,
    "case": case,
}
"""2, 3, 4, 8, 9 and 10 run with plain sharing, and with MPS if the driver has it."""

if __name__ == "__main__":
    main()
