from gmi_drl.bench.cases import needs


def test_what_is_here_is_no_obstacle():
    assert needs.package("torch", "x") is None and needs.cores(1) is None


def test_obstacles_name_the_remedy():
    assert "pip install 'gmi-drl[peers]'" in needs.package("no_such_module", "peers")
    assert "needs 5000 cores" in needs.cores(5000)
