import os
import sys
import time

import pytest

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.peers import Update, read_updates, speed
from gmi_drl.errors import GmiError, MachineError

LINE = '{"env_steps": %d, "wall_s": %f, "return_mean": %s}'


def test_updates_are_read_among_other_lines():
    printed = "\n".join(
        (
            "Loading {things}",
            LINE % (2048, 1.5, "null"),
            "[warn] slow",
            '{"env_steps": 4096, "wall_s": 3.0, "return_mean": -41.5, "episodes": 2}',
        )
    )
    assert read_updates(printed) == [Update(2048, 1.5, None), Update(4096, 3.0, -41.5, 2)]


def test_the_speed_leaves_the_warm_up_out():
    updates = [Update(100, 50.0, None), Update(200, 90.0, None), Update(300, 91.0, None), Update(400, 92.0, None)]
    assert speed(updates, warm_up=2) == 100


def test_a_warm_up_that_leaves_nothing_is_an_error():
    with pytest.raises(GmiError, match="give more time"):
        speed([Update(100, 1.0, None), Update(200, 2.0, None)], warm_up=2)


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Makes the driver of a peer "mine" from its code, in an environment of its own that is this one."""
    monkeypatch.setattr(peers, "REPOSITORY", tmp_path)
    (tmp_path / "benchmarks" / "peers" / "requirements").mkdir(parents=True)
    (tmp_path / "benchmarks" / "peers" / "requirements" / "mine.txt").write_text("# why\nthing==1.0\n")
    (tmp_path / ".peers" / "mine" / "bin").mkdir(parents=True)
    (tmp_path / ".peers" / "mine" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / ".peers" / "mine" / "ready.txt").write_text("# why\nthing==1.0\n")
    return (tmp_path / "benchmarks" / "peers" / "train_mine.py").write_text


def train():
    return peers.train("mine", num_env=8, threads=1, seconds=0.1)


def test_a_driver_gets_its_sizes_and_gives_its_updates(driver):
    driver("import json, sys; print(json.dumps({'env_steps': int(sys.argv[2]), 'wall_s': 1.0, 'return_mean': None}))")
    assert train() == [Update(8, 1.0, None)]


def test_an_environment_of_other_versions_is_an_obstacle(driver, tmp_path):
    driver("")
    assert peers.obstacle("mine") is None and peers.packages("mine") == ["thing==1.0"]
    (tmp_path / ".peers" / "mine" / "ready.txt").write_text("thing==0.9\n")
    assert "missing or old: python benchmarks/peers/setup.py mine" in peers.obstacle("mine")


def test_nothing_of_a_driver_lives_on(driver):
    driver(
        "import subprocess\n"
        "left = subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        f"print('{LINE}' % (left.pid, 1, 'null'))"
    )
    (update,) = train()
    deadline = time.monotonic() + 60
    while not is_gone(update.env_steps):  # a kill takes effect a little later
        assert time.monotonic() < deadline


def is_gone(pid):
    """Ended, if only as a zombie that nobody has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def test_a_driver_that_fails_is_an_error_with_its_last_words(driver):
    driver("raise ValueError('no such world')")
    with pytest.raises(GmiError, match=r"(?s)exit code 1.*--num-env 8.*no such world"):
        train()


def test_a_driver_that_hangs_is_an_error(driver, monkeypatch):
    monkeypatch.setattr(peers, "START_S", 0.5)
    driver("import time; time.sleep(60)")
    with pytest.raises(GmiError, match="has not ended"):
        train()


def test_a_missing_environment_is_an_obstacle_with_its_remedy(driver):
    driver("")
    assert peers.obstacle("mine") is None
    os.remove(peers.REPOSITORY / ".peers" / "mine" / "ready.txt")
    assert "benchmarks/peers/setup.py mine" in peers.obstacle("mine")
    with pytest.raises(MachineError, match=r"setup\.py mine"):
        train()
