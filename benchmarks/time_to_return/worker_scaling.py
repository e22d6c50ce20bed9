"""What serving more actors costs: 1,000 light clients of a policy worker, and the CPU of each process by actors.

    python benchmarks/time_to_return/worker_scaling.py measure                   # continues where it was stopped
    python benchmarks/time_to_return/worker_scaling.py measure --seconds 2       # a trial
    python benchmarks/time_to_return/worker_scaling.py tell
    python benchmarks/time_to_return/worker_scaling.py saturation

A light client is a connection of a process without torch, which asks again as soon as it is answered; no policy
computes the answers. Actors, whose environments sleep, have a node of their own, beside one with a policy worker and a
trainer. Both nodes are of this machine. `tell` fits the costs of a request, a rollout and a GMI: the `services` of
a profile of workers (`gmi-drl plan --template workers --profile`); beside them it tells what a sample and a pull cost
on one host (`worker_near.py`), which no plan asks for. `saturation` computes from them which service of
SRL's cluster would be full first (`worker_saturation.py`), and writes that to a file.
"""

import argparse
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from resumable import Run, read
from worker_near import measure_near

from gmi_drl.comm.links.framing import FIRST_OTHER_KIND, FramedConnection

FILE = Path(__file__).parents[1] / "results" / "worker_scaling" / "measured.jsonl"
LIGHT = (1, 10, 100, 300, 1000)
PROCESSES = 4
NUMBERS, ANSWER_NUMBERS = 256, 16
ACTORS = (1, 2, 4, 8)
FRAME_S, NUM_ENV, HORIZON = 0.01, 4, 32
SECONDS = 20.0
HANG_S = 60.0

READY, HALF = FIRST_OTHER_KIND, FIRST_OTHER_KIND + 1
WITHIN = 1
HEAD = struct.Struct("<2q")
LINE = struct.Struct("<6q80x")
"""Of a client: posted, what, version, time, process, has left (`comm/streams/slot_link.py`, `slots.py`)."""


def light_clients(port: int, first: int, count: int, nbytes: int) -> None:
    """Ask and ask again, by so many connections, until the server closes them. Imports no torch."""
    selector, numbers = selectors.DefaultSelector(), bytes(nbytes)
    for client in range(first, first + count):
        end = socket.create_connection(("127.0.0.1", port))
        end.sendall(struct.pack("<q", client))
        selector.register(FramedConnection(end, 1), selectors.EVENT_READ, [0])

    def ask(connection: FramedConnection, posted: list[int]) -> None:
        posted[0] += 1
        line = LINE.pack(posted[0], 0, 0, time.monotonic_ns(), 1, 0)
        connection.send_together([(HALF, [HEAD.pack(0, WITHIN) + line + numbers])])

    while selector.get_map():
        for key, _ in selector.select():
            connection: Any = key.fileobj
            for kind, _ in connection.read():
                if kind in (READY, HALF):
                    ask(connection, key.data)
            if not connection.is_open:
                selector.unregister(connection)


def measure_light(count: int, seconds: float) -> Run:
    """Requests/s of one server by so many clients, its CPU seconds and memory for each."""
    import psutil
    import torch

    from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
    from gmi_drl.comm.memory.segment import create_empty
    from gmi_drl.comm.streams import StreamServer, StreamSizes, join_stream
    from gmi_drl.layout.experience import Kind

    torch.set_num_threads(1)
    kinds = (Kind("obs", (1, NUMBERS)),), (Kind("action", (1, ANSWER_NUMBERS)),)
    sizes = StreamSizes(*kinds, 1, (0,), (tuple(range(1, count + 1)),))
    mailboxes, memory = create_mailboxes([0, *range(1, count + 1)]), create_empty("gmi-drl-scaling")
    before = psutil.Process().memory_info().rss
    with socket.create_server(("127.0.0.1", 0), backlog=count) as listening:
        port = listening.getsockname()[1]
        processes = _start_light(port, count, sizes.offsets[1])
        far = _accepted(listening, count)
    server = StreamServer(*join_stream(memory, mailboxes, 0, sizes, HANG_S), wait_s=0.0, far=far)
    batch, action = torch.zeros(count, NUMBERS), torch.ones(1, ANSWER_NUMBERS)
    requests = batches = 0
    began, began_cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        slots = server.next_batch()
        for row, slot in enumerate(slots):
            batch[row].copy_(server.requests[slot]["obs"][0])
            server.answers[slot]["action"].copy_(action)
        server.answer(0)
        requests, batches = requests + len(slots), batches + 1
    took, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    memory_bytes = psutil.Process().memory_info().rss - before
    server.close()
    for process in processes:
        process.wait(timeout=HANG_S)
    mailboxes.close()
    os.close(memory)
    rate = {"per_second": requests / took, "rows": requests / batches, "cpu_us": 1e6 * cpu_s / requests}
    return {"kind": "light", "count": count, **rate, "kib_each": memory_bytes / count / 1024}


def _start_light(port: int, count: int, nbytes: int) -> list["subprocess.Popen[bytes]"]:
    ends = [round(count * number / PROCESSES) for number in range(PROCESSES + 1)]
    parts = [(first + 1, last - first) for first, last in pairwise(ends) if last > first]
    light = [sys.executable, __file__, "light", str(port)]
    return [subprocess.Popen([*light, str(first), str(of), str(nbytes)]) for first, of in parts]


def _accepted(listening: socket.socket, count: int) -> dict[int, FramedConnection]:
    """The connections of all clients, by the id that each sends first."""
    listening.settimeout(HANG_S)
    found = {}
    for _ in range(count):
        end, _ = listening.accept()
        (client,) = struct.unpack("<q", end.recv(8, socket.MSG_WAITALL))
        found[client] = FramedConnection(end, 1)
    return found


def measure_actors(count: int, seconds: float) -> Run:
    """Steps, rollouts and updates of a training by so many actors that sleep, and CPU seconds of each kind of process.

    Both are of the time between the first row and the last.
    """
    from worker_trainings import ACTS, ANSWERS, TRAINS, layout_of

    from gmi_drl.benchmarks.cases.common.decoupled_run import FOREVER
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.launch.job import resolve
    from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors
    from gmi_drl.launch.training import train
    from gmi_drl.run.folder import RunFolder

    name = f'gymnasium:gmi_drl.benchmarks.cases.common.sleeping:FootballLike-v0{{"frame_s": {FRAME_S}}}'
    layout = layout_of(name, NUM_ENV, [[ANSWERS, TRAINS], [ACTS] * count], max_lag=2)
    learner = PPOConfig(hidden=(64, 64), horizon=HORIZON, epochs=1, minibatches=4)
    config = RunConfig(hang_s=HANG_S, learner=learner, iterations=FOREVER, time_limit_s=seconds, writers=())
    rows: list[tuple[float, int, dict[str, float]]] = []

    def keep(row: dict[str, Any]) -> None:
        rows.append((time.monotonic(), row["env_steps"], cpu_s_by_kind(layout)))

    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="gmi-drl-scaling-") as path:
        folder = RunFolder(Path(path) / "run", stays=False)
        folder.create()
        train(resolve(layout, config, folder), on_row=keep, supervisors=SubprocessSupervisors())
    (began, first, before), *_, (ended, last, after) = rows
    steps = last - first
    spent = {kind: after[kind] - before.get(kind, 0.0) for kind in after}
    counted = {"requests": steps / NUM_ENV, "rollouts": steps / NUM_ENV / HORIZON, "updates": len(rows) - 1}
    return {"kind": "actors", "count": count, "seconds": ended - began, "steps": steps, **counted, "cpu_s": spent}


def cpu_s_by_kind(layout: Any) -> dict[str, float]:
    """CPU seconds so far of the processes that descend from this one: of GMIs by roles, of the others by module."""
    import psutil

    spent: dict[str, float] = {"launcher": time.process_time()}
    for process in psutil.Process().children(recursive=True):
        try:
            line, times = process.cmdline(), process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        kind = _kind_of(line, layout)
        spent[kind] = spent.get(kind, 0.0) + times.user + times.system
    return spent


def _kind_of(line: Sequence[str], layout: Any) -> str:
    module = line[line.index("-m") + 1].rpartition(".")[2] if "-m" in line[:-1] else "others"
    words = line[-1].split()
    if module == "main" and words[:1] == ["GMI"]:
        return "+".join(layout.gmis[int(words[1])].roles)
    return module


def fitted(runs: Sequence[Run]) -> dict[str, float]:
    """The `services` of a profile of workers, in seconds. Slopes are least squares through all runs.

    A proxy's and a supervisor's time counts for the rollouts that pass it; of far requests those of light clients, less
    what the forward pass takes.
    """
    light = [run for run in runs if run["kind"] == "light"]
    actors = [run for run in runs if run["kind"] == "actors"]
    known = {}
    if light:
        known["far_request_s"] = min(run["cpu_us"] for run in light) / 1e6
    if len(actors) > 1:
        proxies = [run["cpu_s"].get("proxy_main", 0.0) / run["seconds"] for run in actors]
        known["rollout_s"] = slope([run["rollouts"] / run["seconds"] for run in actors], proxies)
        launcher = [run["cpu_s"]["launcher"] / run["seconds"] for run in actors]
        known["beat_s"] = slope([run["count"] + 2 for run in actors], launcher)
    return known


def near_costs(runs: Sequence[Run]) -> dict[str, float]:
    """Seconds of a rollout and of a pull on one host, both ends together: of runs of kind `near` (`worker_near.py`)."""
    near = [run for run in runs if run["kind"] == "near"]
    return {f"near_{name}_s": min(run[f"{name}_us"] for run in near) / 1e6 for name in ("sample", "pull") if near}


def slope(at: Sequence[float], values: Sequence[float]) -> float:
    """Of the line through the points with the least squares."""
    from statistics import linear_regression

    return float(linear_regression(at, values).slope)


def tell(runs: Sequence[Run]) -> None:
    """Print what was measured, and what is fitted."""
    for run in runs:
        print(in_words(run))
    peak = max((run["per_second"] for run in runs if run["kind"] == "light"), default=None)
    if peak:
        most = max((run for run in runs if run["kind"] == "light"), key=lambda run: run["count"])
        print(f"{most['count']} clients: {most['per_second'] / peak:.2f} of the peak")
    print("services:", json.dumps(fitted(runs)))
    print("on one host:", json.dumps(near_costs(runs)))


def in_words(run: Run) -> str:
    """A run in a line."""
    if run["kind"] == "light":
        cost = f"{run['cpu_us']:.1f} CPU us each, batches of {run['rows']:.1f}, {run['kib_each']:.0f} KiB a client"
        return f"{run['count']:5} light clients: {run['per_second']:.0f} requests/s, {cost}"
    if run["kind"] == "near":
        sizes = f"a sample of {run['rollout_bytes']} bytes, {run['pull_us']:.1f} a pull of {run['version_bytes']} bytes"
        return f"near: {run['sample_us']:.1f} CPU us {sizes}"
    spent = ", ".join(f"{kind} {1e3 * cpu_s / run['seconds']:.1f}" for kind, cpu_s in sorted(run["cpu_s"].items()))
    return f"{run['count']:5} actors: {run['steps'] / run['seconds']:.0f} steps/s; CPU ms in a second: {spent}"


def measure(seconds: float | None) -> None:
    """Measure all that is not in the file yet; of a trial everything, into a file of its own."""
    file = FILE.with_name("trial.jsonl") if seconds else FILE
    done = {(run["kind"], run["count"]) for run in ([] if seconds else read(file))}
    file.parent.mkdir(parents=True, exist_ok=True)
    wanted = [(measure_light, "light", count) for count in LIGHT] + [(measure_actors, "actors", n) for n in ACTORS]
    wanted.append((lambda count, seconds: measure_near(seconds, HORIZON, NUM_ENV, HANG_S), "near", 1))
    for how, kind, count in wanted:
        if (kind, count) not in done:
            run = how(count, seconds or SECONDS)
            with file.open("a") as lines:
                lines.write(json.dumps(run) + "\n")
            print(in_words(run), flush=True)


def write_saturation() -> None:
    """Compute where services of SRL's cluster would be full. Prints and writes the table."""
    import worker_saturation

    lines = worker_saturation.told(worker_saturation.costs_of(read(FILE), fitted), NUM_ENV, HORIZON)
    text = "\n".join(lines) + "\n"
    FILE.with_name("saturation.txt").write_text(text)
    print(text, end="")


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description="What serving more actors costs.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("measure").add_argument("--seconds", type=float, help="a trial: of each measurement")
    commands.add_parser("tell")
    commands.add_parser("saturation")
    light = commands.add_parser("light", help="clients, as `measure` starts them")
    for name in ("port", "first", "count", "nbytes"):
        light.add_argument(name, type=int)
    given = parser.parse_args()
    if given.command == "light":
        light_clients(given.port, given.first, given.count, given.nbytes)
    elif given.command == "saturation":
        write_saturation()
    elif given.command == "measure":
        measure(given.seconds)
    else:
        tell(read(FILE))


if __name__ == "__main__":
    main()
