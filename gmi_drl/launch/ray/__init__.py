"""Agents of our own on the nodes of a Ray cluster (https://docs.ray.io): Ray places and starts them, and no more.

Everything between launcher and GMIs goes over connections of our own, so nothing of Ray is in the way of a step.
"""
