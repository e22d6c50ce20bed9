"""The commands of docs/guides/several_machines.md on two hosts with addresses of their own."""

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

EXAMPLES = Path(__file__).parents[3] / "examples" / "cluster"
DEADLINE_S = 120.0


@two_cores
@needs_hosts
def test_the_examples_train_over_two_machines(tmp_path):
    folders = tempfile.TemporaryDirectory(prefix="gmi-", dir="/tmp", ignore_cleanup_errors=True)
    with folders as folder, ray_hosts(folder) as cluster:
        doctor = cluster.gmi_drl("doctor", "--cluster", "ray", "--format", "json", stdout=-1, text=True)
        checks = json.loads(doctor.communicate(timeout=DEADLINE_S)[0])["checks"]
        assert [check["verdict"] for check in checks] == ["ok", "ok"]
        assert all(
            address in check["seen"] for check, address in zip(checks, cluster.hosts.addresses.values(), strict=True)
        )
        for name, change in (
            ("layout", "learner.epochs=1"),
            ("decoupled", "learner.horizon=4"),
            ("workers", "learner.epochs=1"),
        ):
            training = cluster.gmi_drl(
                *("train", EXAMPLES / f"{name}.yaml", "--launcher", "ray", "--iterations", 2),
                *("--run-dir", tmp_path / name, "--set", change),
            )
            assert training.wait(DEADLINE_S) == 0
    for name in ("layout", "decoupled", "workers"):
        rows = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        assert [row["iteration"] for row in rows if "iteration" in row][-1] == 2
        assert len(list((tmp_path / name / "logs").glob("gmi-?.log"))) == 4
