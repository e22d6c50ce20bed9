"""Cuts a GPU by MIG as a layout says, and restores it."""
