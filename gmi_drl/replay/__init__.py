"""Experience that is kept: in files."""
