"""How the ranks of a group meet."""
