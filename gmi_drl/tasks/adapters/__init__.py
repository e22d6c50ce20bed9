"""Other people's simulators as tasks; `task_names.ADAPTERS` says which module makes what.

None of them imports its simulator before a task of it is made.
"""
