"""Starting and supervising the processes of a layout on this host."""

from gmi_drl.launch.run_role import run_role

__all__ = ["run_role"]
