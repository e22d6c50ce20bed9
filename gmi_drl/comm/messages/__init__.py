"""Messages between the GMIs of a host."""
