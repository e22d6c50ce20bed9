"""The `mps` backend: GMIs are clients of NVIDIA's Multi-Process Service, with a private daemon for each GPU.

NVIDIA's documentation: https://docs.nvidia.com/deploy/mps.
"""
