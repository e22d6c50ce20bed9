"""Tables on the speed of nodes over networks, computed and measured, for the pages of results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gmi_drl.config.run_config import default_config
from gmi_drl.files import load_yaml
from gmi_drl.hardware.cluster import Cluster, Network, Nodes
from gmi_drl.hardware.node import Node
from gmi_drl.scheduler import plan_cluster
from gmi_drl.scheduler.profile import load_profile
from gmi_drl.templates.over_nodes import sum_seconds
from gmi_drl.units import human_bytes, human_count
from gmi_drl.workload import TASK_SPECS

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "nodes"
COUNTS = (1, 2, 4, 8, 64, 1000)
MEASURED = ROOT / "benchmarks" / "results" / "network_cost" / "measured.json"
ARCHITECTURE = "x86_64"
TITLES = {"ant": "Ant", "humanoid": "Humanoid", "shadow_hand": "ShadowHand"}
NETWORKS = tuple(Network(gbit_per_s=gbit, round_trip_ms=ms) for gbit in (1, 10) for ms in (0.05, 0.5, 5))


def table() -> str:
    """A table in Markdown: a row for each number of nodes, a column for each network."""
    titles = [f"{network.gbit_per_s:g} Gbit/s, {network.round_trip_ms:g} ms" for network in NETWORKS]
    rows = [["nodes", *titles], ["---:"] * (1 + len(titles))]
    rows += [[f"{count:,}", *(cell(count, network) for network in NETWORKS)] for count in COUNTS]
    return _markdown(rows)


def cell(count: int, network: Network) -> str:
    """The cell of a number of nodes: steps per second, or that one node is best."""
    node, profile = load_yaml(Node, EXAMPLES / "h100-x8.yaml"), load_profile(EXAMPLES / "invented.json")
    task = TASK_SPECS["ant"]
    cluster = Cluster(network=network, nodes=(Nodes(count=count, node=node),))
    plan = plan_cluster(task, default_config(task).learner, cluster, profile)
    return human_count(plan.candidates[0].expected) if count == 1 or len(plan.layout.nodes) > 1 else "one is best"


def measured_table(result: Mapping[str, Any]) -> str:
    """A table in Markdown: a row for each measured network, with the current model's time beside that of each sum.

    A cell has the time of a sum, the model's time for the network as described, and the ratio of the time to the
    model's for the network that a single connection measured.

    Args:
        result: As `benchmarks/network/network_cost.py` writes it. Rows without `nodes` are of two.
    """
    networks = result["networks"]
    sums = {task: human_bytes(one["bytes"]) for row in networks for task, one in row["sums"].items()}
    titles = [
        "nodes",
        "network",
        "as one connection sees it",
        *(f"{TITLES[task]}, {size}" for task, size in sums.items()),
    ]
    rows = [titles, ["---:", *["---"] * (len(titles) - 1)]]
    for row in networks:
        nodes, called, seen = row.get("nodes", 2), _network(row), _network(row["bare"])
        cells = [_sum_cell(row["sums"][task], called, seen, nodes) for task in sums]
        name = f"{called.gbit_per_s:g} Gbit/s, {called.round_trip_ms:g} ms"
        rows.append([str(nodes), name, f"{seen.gbit_per_s:.1f} Gbit/s, {seen.round_trip_ms:.2g} ms", *cells])
    return _markdown(rows)


def times_the_network(result: Mapping[str, Any]) -> list[float]:
    """The ratio of each sum's time to the model's for the network that a single connection measured."""
    return [
        one["measured_ms"] / _model_ms(_network(row["bare"]), one["bytes"], row.get("nodes", 2))
        for row in result["networks"]
        for one in row["sums"].values()
    ]


def _network(row: Mapping[str, Any]) -> Network:
    return Network(gbit_per_s=row["gbit_per_s"], round_trip_ms=row["round_trip_ms"])


def _model_ms(network: Network, size: int, nodes: int) -> float:
    return 1000 * sum_seconds(network, size, nodes, ARCHITECTURE)


def _sum_cell(one: Mapping[str, Any], called: Network, seen: Network, nodes: int) -> str:
    took_ms, size = one["measured_ms"], one["bytes"]
    model_ms, seen_ms = _model_ms(called, size, nodes), _model_ms(seen, size, nodes)
    return f"{took_ms:.1f} ms; {model_ms:.1f}, {took_ms / seen_ms:.2f}x"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"
