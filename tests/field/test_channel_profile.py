"""Where the time of channels goes is told of both ends in both modes."""

import sys

import channel_profile
from conftest import two_cores


@two_cores
def test_every_part_of_both_ends_is_told(monkeypatch, tmp_path):
    for name, small in {"ROLLOUTS": 3, "WARM_UP": 1, "SECONDS": 0.05}.items():
        monkeypatch.setattr(channel_profile, name, small)
    monkeypatch.setattr(sys, "argv", ["channel_profile.py", "franka_cabinet", str(tmp_path / "told.txt")])
    channel_profile.main()
    head, *lines = (tmp_path / "told.txt").read_text().splitlines()
    assert head.split()[-2:] == ["rest", "all"]
    rows = {tuple(line.split()[:2]): dict(zip(head.split()[4:], line.split()[2:], strict=True)) for line in lines}
    assert list(rows) == [("MCC,", "agent"), ("MCC,", "trainer"), ("UCC,", "agent"), ("UCC,", "trainer")]
    for mode in "MCC,", "UCC,":
        assert float(rows[mode, "agent"]["copies"]) > 0 and float(rows[mode, "trainer"]["records"]) > 0
    assert float(rows["UCC,", "trainer"]["records"]) > float(rows["MCC,", "trainer"]["records"])
