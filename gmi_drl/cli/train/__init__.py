"""`gmi-drl train`, and what it refuses."""
