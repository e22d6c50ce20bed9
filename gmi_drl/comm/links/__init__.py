"""Connections between ranks that share no memory."""
