"""Policy workers over nodes of this machine that die while actors, trainers and each other go on."""

import pytest
from conftest import two_cores
from test_decoupled_on_nodes import kill
from test_training_on_nodes import processes_of
from test_workers_on_nodes import ACTOR, HORIZON, NUM_ENV, POLICY, TRAINER, acting, layout_of, start
from unshared import needs_mounts, unseen

from gmi_drl.errors import GmiError
from gmi_drl.run.checkpoint import read_index
from gmi_drl.run.folder import RunFolder
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
    """A single client and no lag. Its open request, with its noise and the state of its memory, goes to the successor."""
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
