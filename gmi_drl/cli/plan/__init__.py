"""`gmi-drl plan`, and the tables and documents that it prints."""
