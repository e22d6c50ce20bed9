import pytest
import scripts  # noqa: F401  puts the scripts on the path
from conftest import two_cores

from tests.fork_server import SERVER

pytest.importorskip("ray", reason="needs the extra [ray]")


@two_cores
@pytest.mark.timeout(400)
def test_here_and_on_ray_the_same_is_learnt_and_a_run_moves_from_one_to_the_other(monkeypatch, capsys):
    import same_digests

    monkeypatch.setattr(same_digests, "subprocess", SERVER)
    monkeypatch.setattr("sys.argv", ["same_digests.py", "--iterations", "2"])
    assert same_digests.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and len({line.rpartition(" ")[2] for line in lines[1:5]}) == 2
    assert "environments start anew" in lines[5]
