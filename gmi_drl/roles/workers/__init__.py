"""Actor, policy and trainer workers, each on a GMI of its own, joined by streams and channels (SRL, section 2.2)."""
