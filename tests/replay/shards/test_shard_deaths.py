"""A rank that ends or is stopped is named on all others; nothing hangs."""

import subprocess
import sys
from pathlib import Path


def test_a_lost_rank_is_named_on_all_others():
    script = Path(__file__).with_name("random_deaths.py")
    done = subprocess.run(
        [sys.executable, script, "12", "3", "2"], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout == "12 of 12 rounds: the lost rank was named on all others\n", done.stderr
