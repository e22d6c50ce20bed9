"""A GMI's side of its launcher: messages, what it inherits, and where it stores checkpoints."""
