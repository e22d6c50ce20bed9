"""Cases of several GMIs on one device against one."""
