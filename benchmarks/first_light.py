"""What a GPU and its driver can do for GMIs: ten questions in one call of under ten minutes.

    python benchmarks/first_light.py -o first_light.jsonl

Needs one GPU that is otherwise idle, torch and the driver (and warp-lang, for a part of question 3); no network, no
rights beyond a daemon of one's own. Modes of the GPU stay as they are. Each question runs in a process of its own with
a deadline, and tells what it sees as it goes: what a question that fails or hangs has seen until then is kept. The file
gets a line of JSON per question.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import first_light_clients as clients_code
from first_light_talk import FOLDER, STORE, attempt, control, say

IN_ALL_S = 570.0
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}


def main() -> int:
    """Ask all questions, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("first_light.jsonl"), help="the file of answers")
    parser.add_argument("--only", type=int, nargs="+", choices=sorted(QUESTIONS), default=ORDER)
    parser.add_argument("--nccl", help="a newer libnccl.so.2, for question 5")
    parser.add_argument("--ask", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--client", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client:
        clients_code.CLIENTS[given.client[0]](*given.client[1:])
        return 0
    if given.ask:
        QUESTIONS[given.ask].ask()
        return 0
    if why := obstacle():
        print(f"first_light: {why}", file=sys.stderr)
        return 4
    if given.nccl:
        os.environ["FIRST_LIGHT_NCCL"] = given.nccl
    return ask_all(given.only, given.output)


def obstacle() -> str | None:
    """Why nothing can be asked on this machine."""
    try:
        import torch
    except ImportError:
        return "torch cannot be imported: install a build of it for CUDA"
    if not torch.cuda.is_available():
        return "torch sees no CUDA device: run it on a machine with a GPU and a torch built for CUDA"
    return None


def ask_all(numbers: list[int], output: Path) -> int:
    """Ask one after the other, write each answer at once, and show all at the end. Returns how many failed."""
    end, answers = time.monotonic() + IN_ALL_S, []
    with output.open("w") as file:
        for number in numbers:
            question = QUESTIONS[number]
            answer = ask(number, min(question.deadline_s, end - time.monotonic()))
            answers.append({"question": number, "about": question.about, **answer})
            file.write(json.dumps(answers[-1]) + "\n")
            file.flush()
            print(
                f"{number:>2}  {answers[-1]['state']:<9}{answers[-1]['seconds']:>6.1f} s  {question.about}", flush=True
            )
    for answer in answers:
        print(f"\n{answer['question']}. {answer['about']}: {answer['state']}")
        for name, value in answer["saw"].items():
            print(f"   {name}: {value}")
    return min(1, sum(answer["state"] != "answered" for answer in answers))


def ask(number: int, deadline_s: float) -> dict[str, Any]:
    """One question in a process of its own; nothing of it lives on."""
    started = time.monotonic()
    if deadline_s <= 0:
        return {"state": "no time", "seconds": 0.0, "saw": {}}
    with tempfile.TemporaryDirectory(prefix="fl-", ignore_cleanup_errors=True) as folder:  # short: sockets lie in it
        printed = Path(folder) / "printed"
        with printed.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, __file__, "--ask", str(number)],
                env=os.environ | {FOLDER: folder},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            state = "answered" if process.wait(deadline_s) == 0 else "failed"
        except subprocess.TimeoutExpired:
            state = "too late"
        finally:
            for pipes in Path(folder).glob("mps-*"):
                with suppress(OSError, subprocess.SubprocessError):
                    control(environment(pipes), "quit -t 2")
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        saw, rest = facts(printed)
        if state != "answered":
            saw["last_words"] = rest[-8:]
    return {"state": state, "seconds": round(time.monotonic() - started, 1), "saw": saw}


def facts(printed: Path) -> tuple[dict[str, Any], list[str]]:
    """What was told as JSON, merged, and all other lines."""
    saw: dict[str, Any] = {}
    rest = []
    for line in printed.read_text(errors="replace").splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        if isinstance(told, dict):
            saw |= told
        else:
            rest.append(line)
    return saw, rest


def environment(pipes: Path) -> dict[str, str]:
    """Where clients of a daemon find it."""
    return {"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_LOG_DIRECTORY": str(pipes)}


@contextmanager
def mps(*flags: str) -> Iterator[dict[str, str]]:
    """A daemon of one's own; what its clients need in their environment."""
    pipes = Path(tempfile.mkdtemp(prefix="mps-", dir=os.environ[FOLDER]))
    found = environment(pipes)
    with (pipes / "start").open("wb") as file:  # a file, because the daemon would hold a pipe open
        command = [shutil.which("nvidia-cuda-mps-control") or "nvidia-cuda-mps-control", "-d", *flags]
        ended = subprocess.run(command, env=os.environ | found, stdout=file, stderr=subprocess.STDOUT, timeout=15)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} exited with {ended.returncode}: {(pipes / 'start').read_text()}")
    try:
        yield found
    finally:
        with suppress(subprocess.SubprocessError):
            control(found, "quit -t 5")


@dataclass
class Clients:
    """Processes of one role on the GPU."""

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
                code = "too late"
            saw, rest = facts(file)
            all_told.append(saw if code == 0 else {**saw, "exit": code, "last_words": rest[-4:]})
        return all_told


def start(role: str, count: int, more: dict[str, str], *arguments: object) -> Clients:
    """Start `count` clients, which can meet in a file of theirs."""
    folder = Path(tempfile.mkdtemp(prefix="clients-", dir=os.environ[FOLDER]))
    processes, files = [], []
    for rank in range(count):
        line = [sys.executable, __file__, "--client", role, str(rank), str(count), *map(str, arguments)]
        files.append(folder / str(rank))
        with files[-1].open("wb") as file:
            own = os.environ | LOOPBACK | {STORE: str(folder / "store")} | more
            processes.append(subprocess.Popen(line, env=own, stdout=file, stderr=subprocess.STDOUT))
    return Clients(processes, files)


def both(role: str, count: int, more: dict[str, str], seconds: float, *arguments: object) -> None:
    """The same clients without and with MPS."""
    say(plain=start(role, count, more, *arguments).told(seconds))
    with mps() as found:
        say(mps=start(role, count, found | more, *arguments).told(seconds))


def daemon() -> None:
    """Question 1."""
    say(control=shutil.which("nvidia-cuda-mps-control"), server=shutil.which("nvidia-cuda-mps-server"))
    query = [
        "nvidia-smi",
        "--query-gpu=name,uuid,driver_version,compute_mode,mig.mode.current",
        "--format=csv,noheader",
    ]
    attempt("gpu", lambda: subprocess.run(query, capture_output=True, text=True, timeout=15).stdout.strip())
    with mps() as found:
        say(version=control(found, "version"), servers=control(found, "get_server_list"))
        say(client=start("sms", 1, found, 0.2).told(25))
    attempt("static_partitions", static_partitions)


def static_partitions() -> str:
    """Whether the daemon can cut SMs; a client of it tells how many it got."""
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=15).stdout
    uuid = listed.partition("UUID: ")[2].partition(")")[0]
    with mps("-S") as found:
        return control(found, f"sm_partition add {uuid} 2") + " | " + control(found, "lspart")


def halves() -> None:
    """Question 2."""
    with mps() as found:
        told = start("sms", 2, found | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}, 3.0).told(35)
    say(clients=[one | {"sms": len(one["sms"])} if _knows_sms(one) else one for one in told])
    if all(_knows_sms(one) for one in told):
        say(shared_sms=len(set(told[0]["sms"]) & set(told[1]["sms"])))


def _knows_sms(one: dict[str, Any]) -> bool:
    """Whether a client has found its SMs; what it met else is a text."""
    return isinstance(one.get("sms"), list)


def ipc() -> None:
    """Question 3."""
    both("ipc", 1, {}, 22)
    say(warp=start("warp", 1, {}).told(40)[0])
    with mps() as found:
        say(warp_mps=start("warp", 1, found).told(30)[0])


def symmetric() -> None:
    """Question 4."""
    both("symmetric", 2, {"TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1"}, 22)


def nccl() -> None:
    """Question 5."""
    newer = os.environ.get("FIRST_LIGHT_NCCL")
    more = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": "4"} | ({"LD_PRELOAD": newer} if newer else {})
    both("nccl", 2, more, 22)
    with mps() as found:
        for size in (4, 8):
            say(**{f"mps k={size}": start("nccl", size, found | more).told(25)[0]})


def green() -> None:
    """Question 6."""
    say(**start("green", 1, {}).told(35)[0])


def gpm() -> None:
    """Question 7."""
    say(**start("gpm", 1, {}).told(25)[0])


def latency() -> None:
    """Question 8. Rank 0 tells microseconds by method and number of float32 parameters."""
    with mps() as found:
        for size in (2, 4, 8):
            overlap = {"TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1"}
            say(**{f"k={size}": start("reduce", size, found | overlap).told(32)[0]})


def fault() -> None:
    """Question 9."""
    with mps() as found:
        peer, outsider = start("work", 1, found, 14.0), start("work", 1, {}, 14.0)
        time.sleep(6)
        say(faulty=start("fault", 1, found).told(20))
        say(peer=peer.told(25), without_mps=outsider.told(25))
        say(newcomer=start("work", 1, found, 1.0).told(20))


def throughput() -> None:
    """Question 10. Environment steps per second of a made-up load, over all clients."""
    ways: dict[str, AbstractContextManager[dict[str, str]]] = {"plain": nullcontext({}), "mps": mps()}
    for name, way in ways.items():
        with way as found:
            for size, is_pinned in ((1, 0), (2, 0), (2, 1), (4, 0), (4, 1)):
                told = start("load", size, found, 3.0, is_pinned).told(30)
                speeds = [one.get("steps_per_second", 0.0) for one in told]
                failed = [one for one in told if "exit" in one]
                say(**{f"{name} k={size}{' pinned' if is_pinned else ''}": failed or round(sum(speeds))})


@dataclass(frozen=True)
class Question:
    """What is asked, how, and how long an answer may take."""

    about: str
    ask: Callable[[], None]
    deadline_s: float


QUESTIONS = {
    1: Question("the MPS daemon in a private directory, and its static partitions", daemon, 60),
    2: Question("two MPS clients at 50 %: which SMs they get", halves, 50),
    3: Question("memory shared between processes by torch and by Warp (CUDA IPC), Warp itself", ipc, 160),
    4: Question("torch symmetric memory of two processes on one GPU", symmetric, 60),
    5: Question("NCCL with two, four and eight ranks on one GPU", nccl, 115),
    6: Question("four green contexts: are their SMs disjoint", green, 40),
    7: Question("utilisation by GPM: is it permitted", gpm, 30),
    8: Question("latency of a reduction: 0.1, 0.5, 1.5 M parameters, k = 2, 4, 8 (NCCL: see 5)", latency, 100),
    9: Question("one MPS client faults: who is hit", fault, 75),
    10: Question("throughput of k = 1, 2, 4 with and without MPS, cores pinned and not", throughput, 170),
}

ORDER = (1, 2, 10, 8, 3, 4, 5, 6, 7, 9)
"""What decides most comes first, for the time may not do for all."""

if __name__ == "__main__":
    sys.exit(main())
