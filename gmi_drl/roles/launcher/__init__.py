"""What a GMI and its launcher tell each other."""
