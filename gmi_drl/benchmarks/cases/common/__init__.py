"""What several cases share."""
