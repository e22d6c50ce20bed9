import torch

from gmi_drl.run import checkpoint
from gmi_drl.run.checkpoint_store import CheckpointStore


def test_a_local_store_commits_checkpoints_itself(tmp_path):
    home = CheckpointStore(tmp_path)
    for iteration in (1, 2, 3):
        home.keep(checkpoint.write_part(checkpoint.draft(tmp_path, iteration), "learner", {"w": torch.ones(2)}))
        home.require_room(iteration, most=2)
        home.commit(iteration, {"env_steps": iteration}, kept=2)
    checkpoint.draft(tmp_path, 4).mkdir()
    home.drop_drafts()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["000002", "000003"]
    assert checkpoint.read_part(tmp_path / "000003", "learner")["w"].tolist() == [1, 1]
