"""Cases that time one part: physics, an update, a reduction, a channel."""
