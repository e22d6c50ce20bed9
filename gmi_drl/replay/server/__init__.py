"""The replay server: tables in a process of their own, for clients over TCP and shared memory (Reverb, section 3)."""
