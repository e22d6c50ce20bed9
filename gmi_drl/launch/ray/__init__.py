"""Supervisors on the nodes of a Ray cluster (https://docs.ray.io). Ray places and starts them, and does nothing else.

Launcher and GMIs communicate over connections of our own, so Ray does not slow a step down.
"""
