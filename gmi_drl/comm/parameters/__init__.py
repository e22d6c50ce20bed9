"""How parameters get from the process that learns to those that act."""
