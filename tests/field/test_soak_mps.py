import soak_mps


def test_a_dozen_random_faults_leave_nothing(tmp_path, capfd):
    assert soak_mps.soaked(12, seed=7, folder=tmp_path) == []
    assert capfd.readouterr().out.count("nothing left") == 12
