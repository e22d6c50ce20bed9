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
from first_light_talk import STORE, asked, attempt, environment, folder, has_mps, mps, mps_clients, say, ways

LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
CLIENTS, REDUCER = (Path(__file__).with_name(f"first_light_{name}.py") for name in ("clients", "reducer"))
PARAMETERS = [114_121, 500_000, 1_535_765]
"""The paper's smallest and largest networks (Table 7), and one between."""
SIZES = (1, 2, 4, 8)
TOTALS = (8192,)
MEASURE_S = 3.0
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
            own = os.environ | {STORE: str(place / "store")} | more
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
        told = start("sms", 2, found | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"} if found else {}, 3.0).told(35)
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
        for size in (2, 4, 8) if found else (2,):
            say(**{f"{name} k={size}": start(kind, size, found | more).told(25)[0]})


def green() -> None:
    """Question 6."""
    say(**start("green", 1, {}).told(35)[0])


def gpm() -> None:
    """Question 7."""
    say(**start("gpm", 1, {}).told(25)[0])


def latency() -> None:
    """Question 8. Rank 0 tells microseconds by method and number of float32 parameters."""
    for name, found in ways():
        for size in sizes()[1:]:
            with environment(found):
                attempt(f"{name} k={size}", partial(reductions, size))


def reductions(size: int) -> dict[str, Any]:
    """What GMIs that share the GPU tell of our reductions, also if one of them failed."""
    from gmi_drl import run_role
    from gmi_drl.errors import GmiError

    run = folder("run-")
    try:
        run_role(f"{REDUCER}:Reducer", every_reduction(layout(size)), {"counts": PARAMETERS}, run_dir=run, hang_s=20)
        error = {}
    except GmiError as failure:
        error = {"error": str(failure)[:1000]}
    log = run / "logs" / "gmi-0.log"
    return (stages.facts(log.read_text(errors="replace"))[0] if log.exists() else {}) | error


def fault() -> None:
    """Question 9."""
    for name, found in ways():
        peer, outsider = start("work", 1, found, 14.0), start("work", 1, {}, 14.0)
        time.sleep(6)
        say(**{f"{name}_faulty": start("fault", 1, found).told(20)})
        say(**{f"{name}_peer": peer.told(25), f"{name}_without_mps": outsider.told(25)})
        say(**{f"{name}_newcomer": start("work", 1, found, 1.0).told(20)})


def throughput(totals: Sequence[int]) -> None:
    """Question 10. What a training of Ant does per second, as `gmi-drl plan` measures it."""
    for name, found in ways():
        for size in sizes():
            with environment(found):
                attempt(f"{name} k={size}", partial(speeds, size, totals, found))


def speeds(size: int, totals: Sequence[int], found: dict[str, str]) -> dict[str, Any]:
    """Steps per second of all GMIs, by the environments of all of them; kernels are compiled before anything counts."""
    from gmi_drl.config import default_config
    from gmi_drl.profiler.session import Session
    from gmi_drl.profiler.sessions import Sessions
    from gmi_drl.workload import TASK_SPECS

    session, told = Session(layout(size), default_config(TASK_SPECS["ant"])), dict[str, Any]()
    with Sessions({size: session}, "first light") as sessions:
        for total in totals:
            one = sessions[size].measure(total // size, MEASURE_S)
            told[str(total)] = figures(one)
        if found:
            told["mps_clients"] = len(mps_clients(found))
    return told


def figures(one: Any) -> dict[str, float]:
    """What was measured of one layout, in short."""
    return {
        "steps_per_second": round(one.steps_per_second),
        "relative_error": round(one.relative_error, 3),
        "memory_bytes": one.memory_bytes,
        **{phase: round(seconds, 4) for phase, seconds in one.phases.items()},
    }


def layout(size: int, task: str = "ant") -> Any:
    """So many GMIs on the GPU; where there is none, on the cores."""
    from gmi_drl.cut import Cut
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.templates import TCG_EX
    from gmi_drl.workload import TASK_SPECS

    return TCG_EX.lay_out(TASK_SPECS[task], this_node(), Cut(size, 1))


def every_reduction(whole: Any) -> Any:
    """The same GMIs, in a group for each reduction that is legal there and named as it."""
    import platform

    from gmi_drl.layout import GmiGroup
    from gmi_drl.reductions import legal_reductions

    mapping = [[gmi.id for gmi in device.gmis] for device in whole.devices]
    legal = legal_reductions(mapping, whole.devices[0].kind, platform.machine())
    members = tuple(gmi.id for gmi in whole.gmis)
    groups = {method.name: GmiGroup(members=members, reduction=method.name) for method in legal}
    return whole.model_copy(update={"groups": groups})


def sizes() -> list[int]:
    """Numbers of GMIs for which there are cores."""
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.templates import devices_of

    _, most = devices_of(this_node())
    return [size for size in SIZES if size <= most]


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
    10: Question("training by k = 1, 2, 4, 8 GMIs at one total of environments", throughput, 180),
}
"""2 to 4 and 8 to 10 are asked in plain sharing, and under MPS where the driver has it."""

ORDER = (10, 8, 1, 2, 3, 4, 5, 6, 7, 9)
"""What decides most comes first, for the time may not do for all."""

if __name__ == "__main__":
    sys.exit(main())
