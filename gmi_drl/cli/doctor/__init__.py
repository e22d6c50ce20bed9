"""`gmi-drl doctor`: what this machine has and lacks."""
