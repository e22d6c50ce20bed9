"""Processes that a launcher starts: their signals, and those that clean up when the launcher dies."""
