"""Real clients: tasks of other libraries, trained by `gmi-drl train` where these are installed (docs/interop.md)."""
