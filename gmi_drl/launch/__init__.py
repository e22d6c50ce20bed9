"""Starting and supervising the processes of a layout on this host."""
