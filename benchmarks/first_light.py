"""What a GPU and its driver can do for GMIs: ten questions in one call of nine minutes.

    python benchmarks/first_light.py -o first_light.jsonl

Needs one GPU that is otherwise idle, gmi-drl with the extra [warp], and the driver; no network, no rights beyond a
daemon of one's own. Modes of the GPU stay as they are. Each question runs in a process of its own with a deadline, and
tells what it sees as it goes: what a question that fails or hangs has seen until then is kept. The file gets a line of
JSON per question. Question 5 takes a newer NCCL from the environment: FIRST_LIGHT_NCCL=/path/to/libnccl.so.2.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import stages
from first_light_gmis import latency, throughput
from first_light_talk import STORE, asked, attempt, folder, has_mps, mps, say, ways

from gmi_drl.gmi_environment import NO_MPS, without_mps

LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
CLIENTS = Path(__file__).with_name("first_light_clients.py")
TOTALS = (8192,)
MULTI_RANK_NCCL = (2, 30)
"""From here on several ranks may have one GPU."""


def main() -> int:
    """Ask all questions, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("first_light.jsonl"), help="the file of answers")
    parser.add_argument("--only", type=int, nargs="+", choices=sorted(QUESTIONS), default=ORDER)
    parser.add_argument("--seconds", type=float, default=stages.CALL_S, help="for all of them (default: %(default)g)")
    parser.add_argument("--totals", type=int, nargs="+", default=TOTALS, help="environments in all, for question 10")
    parser.add_argument("--rehearse", action="store_true", help="ask where there is no GPU, to see that asking works")
    parser.add_argument("--ask", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ask:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # too late: its daemon ends first
        os.environ.update(LOOPBACK)
        ask = QUESTIONS[given.ask].ask
        ask(given.totals) if ask is throughput else ask()
        return 0
    if why := stages.obstacle(given.rehearse):
        print(f"first_light: {why}", file=sys.stderr)
        return 4
    return stages.run_all([stage(number, given.totals) for number in given.only], given.output, given.seconds)


def stage(number: int, totals: Sequence[int] = TOTALS) -> stages.Stage:
    """A question as a stage."""
    question = QUESTIONS[number]
    command = ("python", str(Path(__file__).resolve()), "--ask", str(number), "--totals", *map(str, totals))
    return stages.Stage(f"question_{number}", question.about, question.seconds, (command,))


@dataclass
class Clients:
    """Processes of one kind on the GPU."""

    processes: list[subprocess.Popen[bytes]]
    files: list[Path]

    def told(self, seconds: float) -> list[dict[str, Any]]:
        """What each has told when all have ended, or after `seconds`; how it ended where not well."""
        end, all_told = time.monotonic() + seconds, []
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
    """Start `count` clients, which can meet in a file of theirs."""
    place = folder("clients-")
    processes, files = [], []
    for rank in range(count):
        line = [sys.executable, str(CLIENTS), kind, str(rank), str(count), *map(str, arguments)]
        files.append(place / str(rank))
        with files[-1].open("wb") as file:
            own = without_mps(os.environ) | {STORE: str(place / "store")} | more
            processes.append(subprocess.Popen(line, env=own, stdout=file, stderr=subprocess.STDOUT))
    return Clients(processes, files)


def daemon() -> None:
    """Question 1."""
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
    """Whether the daemon can cut SMs."""
    uuid = _printed(["nvidia-smi", "-L"]).partition("UUID: ")[2].partition(")")[0]
    with mps("-S") as found:
        return asked(found, f"sm_partition add {uuid} 2") + " | " + asked(found, "lspart")


def _printed(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=15).stdout.strip()


def halves() -> None:
    """Question 2."""
    for name, found in ways():
        cap = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"} if name == "mps" else {}
        told = start("sms", 2, found | cap, 3.0).told(35)
        seen = [set(one["sms"]) for one in told if isinstance(one.get("sms"), list)]
        say(**{name: [one | {"sms": len(one["sms"])} if isinstance(one.get("sms"), list) else one for one in told]})
        if len(seen) == len(told):
            say(**{f"{name}_shared_sms": len(set.intersection(*seen))})


def ipc() -> None:
    """Question 3."""
    for name, found in ways():
        say(**{name: start("ipc", 1, found).told(25)[0]})
        say(**{f"{name}_warp": start("warp", 1, found).told(40)[0]})


def symmetric() -> None:
    """Question 4."""
    _for_sizes("symmetric", {"TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1"})


def nccl() -> None:
    """Question 5."""
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
    """Two clients in plain sharing, and two, four and eight under MPS."""
    for name, found in ways():
        for size in (2, 4, 8) if name == "mps" else (2,):
            say(**{f"{name} k={size}": start(kind, size, found | more).told(25)[0]})


def green() -> None:
    """Question 6."""
    say(**start("green", 1, {}).told(35)[0])


def gpm() -> None:
    """Question 7."""
    say(**start("gpm", 1, {}).told(25)[0])


def fault() -> None:
    """Question 9."""
    for name, found in ways():
        peer, outsider = start("work", 1, found, 14.0), start("work", 1, NO_MPS, 14.0)
        time.sleep(6)
        say(**{f"{name}_faulty": start("fault", 1, found).told(20)})
        say(**{f"{name}_peer": peer.told(25), f"{name}_without_mps": outsider.told(25)})
        say(**{f"{name}_newcomer": start("work", 1, found, 1.0).told(20)})


@dataclass(frozen=True)
class Question:
    """What is asked, how, and how long an answer takes on a GPU, about."""

    about: str
    ask: Callable[..., None]
    seconds: float


QUESTIONS = {
    1: Question("the MPS daemon in a private directory, and its static partitions", daemon, 25),
    2: Question("two clients, under MPS at 50 %: which SMs they get", halves, 30),
    3: Question("memory shared between processes by torch and by Warp (CUDA IPC), Warp and its graphs", ipc, 60),
    4: Question("torch symmetric memory of 2, 4, 8 processes on one GPU: latency of a sum", symmetric, 50),
    5: Question("NCCL with 2, 4, 8 ranks on one GPU: latency of a sum", nccl, 20),
    6: Question("four green contexts: are their SMs disjoint", green, 15),
    7: Question("utilisation by GPM: is it permitted", gpm, 10),
    8: Question("latency of our own reductions: 0.1, 0.5, 1.5 M parameters, k = 2, 4, 8", latency, 75),
    9: Question("one client faults: who is hit", fault, 70),
    10: Question("training by k = 1, 2, 4, 8 GMIs at one total of environments", throughput, 240),
}
"""2 to 4 and 8 to 10 are asked in plain sharing, and under MPS where the driver has it, 10 with caps and without."""

ORDER = (10, 8, 1, 2, 3, 4, 5, 6, 7, 9)
"""What decides most comes first, for the time may not do for all."""

if __name__ == "__main__":
    sys.exit(main())
