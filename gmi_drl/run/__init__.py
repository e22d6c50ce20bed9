"""What a run leaves on disk: its folder, metrics and checkpoints."""

from pathlib import Path

RUNS = Path("runs")
"""Where runs are whose folder is not named."""
