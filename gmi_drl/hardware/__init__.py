"""Describes machines: nodes, clusters, GPUs and their MIG profiles, links and their speeds."""
