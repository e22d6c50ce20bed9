"""What a run leaves on disk: its folder, metrics and checkpoints."""
