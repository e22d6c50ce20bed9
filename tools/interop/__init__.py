"""Trials with other libraries: `gmi-drl train` on their tasks, if they are installed (docs/interop.md)."""
