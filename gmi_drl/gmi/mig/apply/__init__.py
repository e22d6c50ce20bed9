"""Makes the MIG instances that a layout wants, and restores the previous ones."""
