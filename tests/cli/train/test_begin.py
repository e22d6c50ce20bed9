from gmi_drl.cli.train.begin import begin, with_folder
from gmi_drl.cli.train.options import TrainOptions


def test_runs_that_start_in_the_same_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda *_: "now")
    unset = dict.fromkeys(TrainOptions.__dataclass_fields__)
    options = TrainOptions(**unset | {"task": "ant", "num_env": 8, "set": (), "launcher": "local"})
    jobs = [begin(options)[0] for _ in range(3)]  # none of them has a folder yet
    assert not (tmp_path / "runs").exists()
    made = [with_folder(job, options).folder for job in jobs]
    assert [folder.path.name for folder in made] == ["ant-now", "ant-now-2", "ant-now-3"]
    assert all(folder.checkpoints.is_dir() for folder in made)
