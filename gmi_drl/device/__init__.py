"""What torch does on a device that takes care: graphs, uploads, precision of products. Importing it imports torch."""
