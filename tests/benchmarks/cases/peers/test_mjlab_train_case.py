from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.cases.peers import mjlab_train
from gmi_drl.benchmarks.peers import Update


def test_each_side_trains_with_its_gmis_and_cores(monkeypatch):
    told = []

    def train(peer, *, num_env, threads, seconds, more):
        told.append((peer, num_env, threads, *more))
        return [Update(100, 50.0, None), Update(300, 60.0, None), Update(500, 70.0, None)]

    monkeypatch.setattr(peers, "train", train)
    with mjlab_train.open_sides(mjlab_train.TWO_CORES, quick=True) as sides:
        assert {name: side().value for name, side in sides.items()} == dict.fromkeys(mjlab_train.TWO_CORES, 20.0)
    assert [(threads, gmis) for _, _, threads, _, _, _, gmis in told] == [(2, "2"), (2, "0"), (1, "0")]
    assert {(peer, num_env) for peer, num_env, *_ in told} == {("mjlab", mjlab_train.NUM_ENV)}


def test_the_environment_divides_among_the_gmis_and_is_pinned():
    settings = [*mjlab_train.ONE_CORE.values(), *mjlab_train.TWO_CORES.values()]
    assert all(mjlab_train.NUM_ENV % gmis == 0 and gmis in (0, cores) for gmis, cores in settings if gmis)
    assert all("==" in line for line in peers.packages("mjlab"))


def test_a_missing_environment_is_an_obstacle(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "REPOSITORY", tmp_path)
    assert all("checkout" in case.obstacle() for case in mjlab_train.CASES)
