"""Policy workers over nodes of this machine that die while actors, trainers and each other go on."""

import pytest
from conftest import two_cores
from test_decoupled_on_nodes import kill
from test_training_on_nodes import processes_of
from test_workers_on_nodes import ACTOR, HORIZON, NUM_ENV, POLICY, TRAINER, acting, layout_of, start
from unshared import needs_mounts, unseen

from gmi_drl.errors import GmiError
from gmi_drl.run.checkpoint import read_index
from gmi_drl.run.metrics import read_metrics

FEW = 6


def killed_at(path, gmi_id, iteration=2):
    def on_row(row):
        if row["iteration"] == iteration:
            kill(path, gmi_id, "roles.main")

    return on_row


@two_cores
@pytest.mark.parametrize(
    "nodes",
    [{"a": [ACTOR], "b": [POLICY], "c": [TRAINER]}, {"a": [POLICY, TRAINER], "b": [ACTOR]}],
    ids=["all apart", "beside its trainer"],
)
def test_a_policy_worker_that_is_killed_changes_no_number_of_a_seeded_run_over_nodes(tmp_path, nodes):
    """A single client, no lag. What it has asked, with its noise and the state of its memory, goes to the successor."""
    layout, told = layout_of(**nodes), []
    worker = next(gmi.id for gmi in layout.gmis if gmi.roles == POLICY)
    _, whole = start(tmp_path / "whole", layout, FEW)
    on_row = killed_at(tmp_path / "run", worker)
    folder, outcome = start(tmp_path / "run", layout, FEW, on_row=on_row, on_restart=told.append, restarts=1)
    rows = read_metrics(folder.metrics_file)
    assert outcome.state == "done" and [row["iteration"] for row in rows] == list(range(1, FEW + 1))
    assert read_index(outcome.checkpoint)["learner"] == read_index(whole.checkpoint)["learner"]
    assert len(told) == 1 and told[0].startswith(f"GMI {worker}") and "started again alone" in told[0]
    assert processes_of(tmp_path) == []


@needs_mounts
@two_cores
def test_all_policy_workers_of_a_node_die_in_turn_and_the_run_goes_on(tmp_path):
    """The first receives the versions for both. Each has an actor here, and one of another node."""
    victims, told, killed = [3, 4, 3], [], []

    def on_row(row):
        if len(killed) == len(told) < len(victims) and (process := acting(victims[len(killed)])):
            process.kill()
            killed.append(row["iteration"])

    layout = layout_of(1, a=[ACTOR, ACTOR, TRAINER], b=[POLICY, POLICY, ACTOR, ACTOR])
    more = {"on_row": on_row, "on_restart": told.append, "restarts": len(victims)}
    folder, outcome = start(tmp_path / "run", layout, 60, unseen(tmp_path, "b"), **more)
    rows = read_metrics(folder.metrics_file)
    assert outcome.state == "done" and [row["iteration"] for row in rows] == list(range(1, 61))
    assert len(told) == len(victims) and all("started again alone" in line for line in told), told
    assert not folder.dropped_file.exists(), "no iteration was repeated"
    assert rows[-1]["env_steps"] == 60 * 4 * NUM_ENV * HORIZON and max(row["lag_max"] for row in rows) <= 1
    assert not any("Error" in log.read_text() for log in (folder.path / "logs").iterdir())
    assert processes_of(tmp_path) == []


@two_cores
def test_when_no_restart_is_left_the_run_ends_by_the_name_of_the_policy_worker(tmp_path):
    told, killed = [], []

    def on_row(row):
        if len(killed) == len(told) and (process := acting(1)):
            process.kill()
            killed.append(row["iteration"])

    with pytest.raises(GmiError, match=r"GMI 1 \(process \d+, node b\) was killed by SIGKILL"):
        layout = layout_of(1, a=[ACTOR], b=[POLICY], c=[TRAINER])
        start(tmp_path / "run", layout, 10**6, on_row=on_row, on_restart=told.append, restarts=1)
    assert len(told) == 1 and told[0].endswith("started again alone, 0 restarts left") and len(killed) == 2
    assert processes_of(tmp_path) == []
