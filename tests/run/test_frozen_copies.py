from conftest import tiny_config

from gmi_drl.config.policies import PolicySection
from gmi_drl.run import checkpoint
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.frozen import with_own_copies


def test_a_frozen_policy_is_the_runs_own_copy_once_that_is_complete(tmp_path):
    run, sections = RunFolder(tmp_path), {"learns": PolicySection(agents=("a",))}
    sections |= {name: PolicySection(agents=(name,), checkpoint="elsewhere") for name in ("copied", "begun")}
    config = tiny_config(policies=sections)
    for name in ("copied", "begun"):
        draft = checkpoint.draft(run.frozen(name).checkpoints, 1)
        draft.mkdir(parents=True, exist_ok=True)
    checkpoint.commit(run.frozen("copied").checkpoints, 1, checkpoint.NO_TRAINING | {"iteration": 1}, kept=1)
    own = with_own_copies(config, run).policies
    assert own["copied"].checkpoint == str(run.frozen("copied").path)
    assert own["begun"] == sections["begun"] and own["learns"] == sections["learns"]
