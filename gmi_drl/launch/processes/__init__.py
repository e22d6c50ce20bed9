"""The processes of this host: start, watch, restart and end GMIs."""
