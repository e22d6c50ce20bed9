"""Memory that processes share, and how they see each other in it: segments, lines, barriers, deaths."""
