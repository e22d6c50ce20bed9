"""What the process of a GMI does: its first steps, the class that users subclass, and our roles, a package each."""
