"""What torch does on a device that takes care: graphs, and copies that nobody waits for. Importing it imports torch."""
