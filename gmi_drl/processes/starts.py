"""When a process started, by which it is told from a later one with its number."""

from pathlib import Path


def start_of(pid: int) -> int:
    """The start of a process in clock ticks since boot; 0 if it has ended.

    Unlike a time of day, it stays the same when somebody sets the clock.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if state in "ZX" else int(fields[18])  # field 22 of proc(5), counted from the state, which is field 3
