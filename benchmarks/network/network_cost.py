"""The time of a sum of gradients over hosts with slow networks between them: measured, and by the planner's model.

    python benchmarks/network/network_cost.py -o benchmarks/results/network_cost/measured.json

The hosts are network namespaces of this machine (root is needed); the network is our relay, `network_relay.py` among
the benchmarks' cases. First the relay alone is measured: the round trip of a byte, and the bandwidth when all hosts
send to their successor, as in a ring. The model is that of `gmi-drl plan --cluster`, for the network as described and
as measured.
"""

import argparse
import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "launch" / "nodes")]

from networks import Hosts, obstacle, some_hosts  # noqa: E402

from gmi_drl.benchmarks.cases.common.network_relay import relayed  # noqa: E402
from gmi_drl.benchmarks.machine import Watch  # noqa: E402
from gmi_drl.config.run_config import RunConfig, default_config  # noqa: E402
from gmi_drl.gmi.inventory import this_node  # noqa: E402
from gmi_drl.hardware.cluster import Network  # noqa: E402
from gmi_drl.launch.job import Job  # noqa: E402
from gmi_drl.launch.open_layout import hold_devices, opened  # noqa: E402
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout  # noqa: E402
from gmi_drl.run.folder import RunFolder  # noqa: E402
from gmi_drl.templates.over_nodes import sum_seconds  # noqa: E402
from gmi_drl.workload import TASK_SPECS  # noqa: E402

TASKS = ("ant", "humanoid", "shadow_hand")
NODES = ("ab", "abcd", "abcdefgh")
NETWORKS = tuple(Network(gbit_per_s=gbit, round_trip_ms=ms) for gbit in (1, 10) for ms in (0.05, 0.5, 5))
REACHED = 0.8
"""The part of the described bandwidth that the relay must reach for its measurement to count."""
ANSWERS, BULK_BYTES = 200, 2**28
PROBE = """
import socket, sys
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
line, _ = server.accept()
line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for _ in range(int(sys.argv[2])):
    line.sendall(line.recv(1))
left, room = int(sys.argv[3]), memoryview(bytearray(2**20))
while left:
    left -= line.recv_into(room, min(left, len(room)))
line.sendall(b"!")
"""
ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import network_cost
print(json.dumps(network_cost.asked(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))))
"""


def main() -> None:
    """Measure all networks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each sum")
    given = parser.parse_args()
    if why := obstacle():
        parser.error(why)
    watch, rows = Watch(), []
    for nodes in NODES:
        for network in NETWORKS:
            rows.append(measured(nodes, network, given.seconds))
            print(described(rows[-1]), flush=True)
    facts = {"machine": watch.machine().model_dump(mode="json"), "networks": rows}
    given.output.write_text(json.dumps(facts, indent=1) + "\n")


def measured(
    nodes: str, network: Network, seconds: float, tasks: Sequence[str] = TASKS, bulk_bytes: int = BULK_BYTES
) -> dict[str, Any]:
    """Measure a network by itself, and the milliseconds of a sum of each task's gradients, beside the model's."""
    with some_hosts(nodes) as hosts:
        addresses = {hosts.spaces[node]: address for node, address in hosts.addresses.items()}
        with relayed(addresses, network.gbit_per_s, network.round_trip_ms):
            bare = alone(hosts, bulk_bytes)
            sums = {task: compared(hosts, network, bare, task, seconds) for task in tasks}
    return {"nodes": len(nodes), **network.model_dump(), "bare": bare.model_dump(), "sums": sums}


def compared(hosts: Hosts, network: Network, bare: Network, task: str, seconds: float) -> dict[str, float]:
    """The milliseconds of a sum of a task's gradients: measured, and by the model for both networks."""
    size = default_config(TASK_SPECS[task]).learner.bucket_bytes(TASK_SPECS[task])
    return {
        "bytes": size,
        "measured_ms": round(1000 * summed(hosts, size // 4, seconds), 3),
        "model_ms": round(1000 * predicted(network, size, len(hosts.spaces)), 3),
        "model_of_bare_ms": round(1000 * predicted(bare, size, len(hosts.spaces)), 3),
    }


def predicted(network: Network, size: int, count: int) -> float:
    """Seconds of a sum over a number of nodes by the model of `plan --cluster`."""
    return sum_seconds(network, size, count, this_node().cpu.architecture)


def summed(hosts: Hosts, numel: int, seconds: float) -> float:
    """Measured seconds of a sum of `numel` numbers by HAR, over one GMI on each host; those of the slowest GMI."""
    cores = len(this_node().cpu.physical)  # with more hosts than cores they share them
    devices = tuple(
        Device(node=node, kind="cpu", gmis=(GMI(id=number, roles=("agent",), cores=(number % cores,)),))
        for number, node in enumerate(hosts.spaces)
    )
    group = GmiGroup(members=tuple(range(len(devices))), reduction="HAR")
    layout = Layout(devices=devices, share_cores=True, groups={"trainers": group})
    roles = dict.fromkeys(group.members, f"{HERE / 'network_reducer.py'}:Reducer")
    params = {"numel": numel, "seconds": seconds}
    with TemporaryDirectory(prefix="gmi-drl-bench-") as path:
        folder = RunFolder(Path(path) / "run", stays=False)
        folder.create()
        with (
            hold_devices(layout, "network_cost.py", hosts) as laying,
            opened(laying, Job(layout, RunConfig(), folder, roles, 4 * numel), params) as processes,
        ):
            for _ in processes.events():
                pass
    return float(max(processes.results.values()))


def alone(hosts: Hosts, bulk_bytes: int) -> Network:
    """The network as measured by a connection from each host to the next: the slowest of them."""
    nodes, answers = list(hosts.spaces), []
    with ExitStack() as life:
        ports = []
        for node in nodes:
            told = [PROBE, hosts.addresses[node], str(ANSWERS), str(bulk_bytes)]
            server = life.enter_context(_inside(hosts, node, *told))
            life.callback(server.kill)
            assert server.stdout is not None
            ports.append(server.stdout.readline().strip())
        for number, node in enumerate(nodes):
            next_one = (number + 1) % len(nodes)
            asked = (ASK, str(HERE), hosts.addresses[nodes[next_one]], ports[next_one], str(ANSWERS), str(bulk_bytes))
            answers.append(life.enter_context(_inside(hosts, node, *asked)))
        for answer in answers:
            assert answer.stdout is not None
            answer.stdout.readline()  # its round trips are done, so that no probe disturbs another
        for answer in answers:
            assert answer.stdin is not None
            answer.stdin.write("on\n")
            answer.stdin.flush()
        facts = [json.loads(answer.communicate(timeout=120)[0]) for answer in answers]
    return Network(
        gbit_per_s=min(fact["gbit_per_s"] for fact in facts), round_trip_ms=max(fact["round_trip_ms"] for fact in facts)
    )


def _inside(hosts: Hosts, node: str, *program: str) -> "subprocess.Popen[str]":
    command = [*hosts.prefixes[node], sys.executable, "-c", *program]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def asked(address: str, port: int, answers: int, bulk_bytes: int) -> dict[str, float]:
    """Run in a host's namespace: measure the median round trip, and Gbit/s of many bytes."""
    line = socket.create_connection((address, port), timeout=60)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    taken = []
    for _ in range(answers):
        began = time.perf_counter()
        line.sendall(b"?")
        line.recv(1)
        taken.append(time.perf_counter() - began)
    print("answered", flush=True)
    sys.stdin.readline()
    piece, began = memoryview(bytes(2**20)), time.perf_counter()
    for sent in range(0, bulk_bytes, len(piece)):
        line.sendall(piece[: bulk_bytes - sent])
    line.recv(1)
    gbit = 8e-9 * bulk_bytes / (time.perf_counter() - began)
    return {"gbit_per_s": round(gbit, 3), "round_trip_ms": round(1000 * median(taken), 3)}


def described(row: dict[str, Any]) -> str:
    """A network and its sums in a line of text."""
    bare = row["bare"]
    falls_short = bare["gbit_per_s"] < REACHED * row["gbit_per_s"]
    sums = ", ".join(
        f"{task} {one['measured_ms']:.2f} ms (model {one['model_ms']:.2f}, of the bare network "
        f"{one['model_of_bare_ms']:.2f})"
        for task, one in row["sums"].items()
    )
    nodes, short = row["nodes"], " (not reached)" if falls_short else ""
    return (
        f"{nodes} nodes, {row['gbit_per_s']:g} Gbit/s, {row['round_trip_ms']:g} ms; bare {bare['gbit_per_s']:g} "
        f"Gbit/s{short}, {bare['round_trip_ms']:g} ms: {sums}"
    )


if __name__ == "__main__":
    main()
