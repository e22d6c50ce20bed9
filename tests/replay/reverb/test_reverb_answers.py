"""The same operations on dm-reverb, where it is installed, and on ours: the same answers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[3] / "benchmarks" / "peers"
THEIRS = PEERS.parents[1] / ".peers" / "reverb" / "bin" / "python"
OPERATIONS = 2000


@pytest.mark.skipif(not THEIRS.exists(), reason="dm-reverb takes 1.7 GB: python benchmarks/peers/setup.py reverb")
def test_both_systems_answer_2000_random_operations_alike():
    """Sizes, counts, limits, and which items fifo, lifo and heaps sample and remove, in 16 tables."""
    systems = {"reverb": THEIRS, "gmi_drl": sys.executable}
    processes = {
        name: subprocess.Popen(
            [python, PEERS / "replay_answers.py", name, str(OPERATIONS)], stdout=subprocess.PIPE, text=True
        )
        for name, python in systems.items()
    }
    theirs, ours = (json.loads(processes[name].communicate(timeout=600)[0]) for name in systems)
    for one, other in zip(theirs, ours, strict=True):
        assert one == other, f"dm-reverb: {one}, ours: {other}"
    assert sum(answer[3] is not None for answer in ours) > OPERATIONS / 6, "items were sampled"
    assert len({answer[0] for answer in ours}) == 16
