"""Tasks of other simulators. Each module can be imported without its simulator, which is needed to make a task."""
