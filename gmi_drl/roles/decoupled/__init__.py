"""Asynchronous training: agents and trainers on GMIs of their own, joined by channels (paper sections 4.2 and 5.1)."""
