"""GMIs on several machines: on each an agent of ours opens its part of a layout, and obeys one launcher.

An agent does on its host what `launch.opened` does here: it claims and cuts its devices, makes what its GMIs share,
starts them, proves them, and carries their words. How agents get there is the affair of an `AgentStarter`.
"""
