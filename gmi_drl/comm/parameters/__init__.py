"""Parameters that a trainer publishes and agents read."""
