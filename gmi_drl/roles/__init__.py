"""What the process of a GMI does: the class users subclass, the GMIs it knows, and the holistic training role."""
