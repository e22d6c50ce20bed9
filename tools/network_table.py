"""The table of docs/planning.md of what nodes do over networks: `python -m tools.network_table`. Computed, not run."""

from pathlib import Path

from gmi_drl.cluster import Cluster, Network, Nodes
from gmi_drl.config import default_config
from gmi_drl.files import load_yaml
from gmi_drl.hardware import Node
from gmi_drl.profile import load_profile
from gmi_drl.scheduler import plan_cluster
from gmi_drl.units import human_count
from gmi_drl.workload import TASK_SPECS

EXAMPLES = Path(__file__).parent.parent / "examples" / "nodes"
COUNTS = (1, 2, 4, 8, 64, 1000)
NETWORKS = tuple(Network(gbit_per_s=gbit, round_trip_ms=ms) for gbit in (1, 10) for ms in (0.05, 0.5, 5))


def table() -> str:
    """Markdown: a row for each number of nodes, a column for each network."""
    titles = [f"{network.gbit_per_s:g} Gbit/s, {network.round_trip_ms:g} ms" for network in NETWORKS]
    rows = [["nodes", *titles], ["---:"] * (1 + len(titles))]
    rows += [[f"{count:,}", *(cell(count, network) for network in NETWORKS)] for count in COUNTS]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def cell(count: int, network: Network) -> str:
    """Steps per second of so many nodes, or that one is best."""
    node, profile = load_yaml(Node, EXAMPLES / "h100-x8.yaml"), load_profile(EXAMPLES / "invented.json")
    task = TASK_SPECS["ant"]
    cluster = Cluster(network=network, nodes=(Nodes(count=count, node=node),))
    plan = plan_cluster(task, default_config(task).learner, cluster, profile)
    return human_count(plan.candidates[0].expected) if count == 1 or len(plan.layout.nodes) > 1 else "one is best"


if __name__ == "__main__":
    print(table(), end="")
