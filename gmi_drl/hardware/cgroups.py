"""Finds the folders of this process's control groups (Linux cgroups, v1 and v2), which hold their limits."""

from pathlib import Path


def cgroup_folders(root: Path, controller: str) -> list[Path]:
    """The folders that may limit this process, v2 and v1, from its own cgroup up to the root of the hierarchy.

    In a container some may not exist: there the container's own cgroup is the root of what is mounted.

    Args:
        root: The root of the file system.
        controller: E.g. "memory".
    """
    base = root / "sys/fs/cgroup"
    folders = []
    for line in read(root / "proc/self/cgroup").splitlines():
        _, controllers, place = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = base / controller if controllers else base
        own = top / place.lstrip("/")
        folders += [own, *(parent for parent in own.parents if parent.is_relative_to(top))]
    return folders


def read(path: Path) -> str:
    """The text of a small file of the kernel; empty if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
