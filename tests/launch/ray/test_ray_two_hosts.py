"""The commands of docs/cluster.md on two hosts with addresses of their own."""

import json
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import two_cores

sys.path.append(str(Path(__file__).parents[1] / "nodes"))
from networks import needs_hosts
from ray_hosts import ray_hosts

pytest.importorskip("ray", reason="needs the extra [ray]")

EXAMPLE = Path(__file__).parents[3] / "examples" / "cluster" / "layout.yaml"
DEADLINE_S = 120.0


@two_cores
@needs_hosts
def test_the_example_trains_over_two_machines(tmp_path):
    folders = tempfile.TemporaryDirectory(prefix="gmi-", dir="/tmp", ignore_cleanup_errors=True)
    with folders as folder, ray_hosts(folder) as cluster:
        doctor = cluster.gmi_drl("doctor", "--cluster", "ray", "--format", "json", stdout=-1, text=True)
        checks = json.loads(doctor.communicate(timeout=DEADLINE_S)[0])["checks"]
        assert [check["verdict"] for check in checks] == ["ok", "ok"]
        assert all(
            address in check["seen"] for check, address in zip(checks, cluster.hosts.addresses.values(), strict=True)
        )
        training = cluster.gmi_drl(
            *("train", EXAMPLE, "--launcher", "ray", "--iterations", 2, "--run-dir", tmp_path / "run"),
            *("--set", "learner.epochs=1"),
        )
        assert training.wait(DEADLINE_S) == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows if "iteration" in row][-1] == 2
    assert len(list((tmp_path / "run" / "logs").glob("gmi-*.log"))) == 4
