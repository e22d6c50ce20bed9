"""MIG: instances of GPUs in hardware, found, or made and taken away again."""
