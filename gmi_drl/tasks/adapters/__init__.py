"""Other libraries' simulators as tasks; `config/task_names.py` has the module of each prefix (`ADAPTERS`).

No module imports its simulator before one of its tasks is made.
"""
