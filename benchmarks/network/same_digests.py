"""Checks that trainings end with the same weights, started on one machine or by Ray on two node daemons of it.

    taskset -c 0,1 python benchmarks/network/same_digests.py > benchmarks/results/same_digests.txt

Trains the Ant on 2 GMIs of one device and on 2 x 2 GMIs of two devices with HAR, locally and by `--launcher ray`, where
devices are nodes, and compares the digests of the learners. Then a run that was started locally is resumed under Ray.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from gmi_drl.files import dump_yaml
from gmi_drl.launch.launchers import ONLY_NODE
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout

NUM_ENV, GMIS = 64, 2
LAYOUTS = {
    "2 GMIs of one device": ((None,), (ONLY_NODE,)),
    "2 x 2 GMIs, HAR": ((None, None), ("a", "b")),
}
"""Layouts with the nodes of their devices, locally and on Ray."""


def main() -> int:
    """Compare. Returns 1 if digests differ, or a run does not resume."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=50)
    iterations = parser.parse_args().iterations
    print(f"ant, {NUM_ENV} environments in each GMI, {iterations} iterations; digests of the learners")
    with TemporaryDirectory(prefix="gmi-", dir="/tmp") as path, ray_cluster(Path(path) / "ray") as cluster:
        folder = Path(path)
        same = [compared(name, folder, cluster, iterations) for name in LAYOUTS]
        goes_on = moved(folder, cluster, iterations)
    return 0 if all(same) and goes_on else 1


def compared(name: str, folder: Path, cluster: dict[str, str], iterations: int) -> bool:
    """Train a layout locally and on Ray. Returns a line with both digests."""
    digests = {}
    for launcher, nodes in zip(("local", "ray"), LAYOUTS[name], strict=True):
        file, run = folder / f"{len(nodes)}-{launcher}.yaml", folder / f"{len(nodes)}-{launcher}"
        file.write_text(dump_yaml(layout_over(*nodes)))
        train(str(file), "--run-dir", str(run), "--launcher", launcher, iterations=iterations, variables=cluster)
        digests[launcher] = learnt(run)
        print(f"{name}, --launcher {launcher}: {digests[launcher]}", flush=True)
    return digests["local"] == digests["ray"]


def moved(folder: Path, cluster: dict[str, str], iterations: int) -> bool:
    """Start a run locally and resume it on Ray. Returns a line with what the command printed."""
    run = folder / "moved"
    train(str(folder / "1-local.yaml"), "--run-dir", str(run), iterations=iterations // 2, variables=cluster)
    said = train("--resume", str(run), "--launcher", "ray", iterations=iterations, variables=cluster)
    rows = [json.loads(line)["iteration"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    news = next((line for line in said.splitlines() if "environments start anew" in line), "")
    print(f"begun locally, gone on with on Ray: iterations {rows[0]} to {rows[-1]}. It says: {news}")
    return rows == list(range(1, iterations + 1)) and bool(news)


def train(*words: str, iterations: int, variables: dict[str, str]) -> str:
    """Run `gmi-drl train`. Returns what it prints."""
    command = [str(Path(sys.executable).with_name("gmi-drl")), "train", *words, "--iterations", str(iterations)]
    run = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=600)
    if run.returncode:
        raise SystemExit(f"{' '.join(command)}\n{run.stderr}")
    return run.stdout + run.stderr


def learnt(run: Path) -> str:
    """The digest in the newest checkpoint of a run."""
    newest = max((run / "checkpoints").iterdir())
    digest: str = json.loads((newest / "checkpoint.json").read_text())["learner"]
    return digest


def layout_over(*nodes: str | None) -> Layout:
    """A layout with a device on each node (None: on this machine), whose GMIs share its first core."""
    devices = []
    for number, node in enumerate(nodes):
        ids = range(number * GMIS, (number + 1) * GMIS)
        gmis = tuple(GMI(id=gmi_id, num_env=NUM_ENV, cores=(0,)) for gmi_id in ids)
        devices.append(Device(node=node, kind="cpu", index=0 if node else number, gmis=gmis))
    everyone = tuple(range(len(nodes) * GMIS))
    group = GmiGroup(members=everyone, reduction="HAR" if len(nodes) > 1 else "MPR-shm")
    return Layout(task="ant", template="TCG_EX", share_cores=True, devices=tuple(devices), groups={"trainers": group})


@contextmanager
def ray_cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Start two node daemons. Yields the environment variables by which commands find them."""
    folder.mkdir()
    variables = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(folder)}
    os.environ.update(variables)
    from ray.cluster_utils import Cluster

    sizes = {"num_cpus": 2, "num_gpus": 0, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=sizes)
    try:
        cluster.add_node(**sizes)
        yield {**variables, "RAY_ADDRESS": cluster.address}
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    sys.exit(main())
