"""Clients of replay servers."""
