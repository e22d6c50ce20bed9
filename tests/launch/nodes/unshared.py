"""Hosts that do not see a folder of this one: mount namespaces in which an empty one lies there."""

import os
import shutil
import subprocess

import pytest

from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors

HIDE = 'mount -t tmpfs none "$0" && exec "$@"'


SMALL = 'mount -t tmpfs -o size=64k none "$TMPDIR" && '


def unseen(folder, *nodes, small=False):
    """Agents of which those of `nodes` do not see what is in a folder.

    Args:
        folder: Which one.
        nodes: By name.
        small: Whether they have 64 KiB for temporary files.
    """
    hide = SMALL * small + HIDE
    return SubprocessSupervisors({node: ["unshare", "--mount", "sh", "-c", hide, str(folder)] for node in nodes})


def obstacle():
    """Why that cannot be done here; None if it can."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return "needs root and unshare for mount namespaces"
    made = subprocess.run(["unshare", "--mount", "sh", "-c", HIDE, "/mnt", "true"], capture_output=True, timeout=120)
    return f"no mount namespaces here: {made.stderr.decode().strip()}" if made.returncode else None


needs_mounts = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
