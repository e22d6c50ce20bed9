"""The control groups of this process (Linux cgroups, v1 and v2): where their limits are written."""

from pathlib import Path


def cgroup_folders(root: Path, controller: str) -> list[Path]:
    """The folders that may limit this process, v2 and v1, from its own cgroup up to the root of the hierarchy.

    In a container some of them may not exist: the container's own cgroup is then the root of what is mounted.

    Args:
        root: Of the file system.
        controller: Such as "memory".
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
    """The text of a small file of the kernel; empty where there is none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
