"""Made-up measurements."""

from gmi_drl.profile import ProfilePoint


def point(gmis, num_env, speed=0.0, memory=0, error=0.0, runnable=True):
    return ProfilePoint(
        gmis_per_gpu=gmis,
        num_env=num_env,
        runnable=runnable,
        steps_per_second=speed,
        memory_bytes=memory,
        relative_error=error,
    )


def measured(table):
    """A `measure` that knows `{(gmis, num_env): (speed, memory[, error])}`, and the list of what it was asked."""
    asked = []

    def measure(gmis, num_env):
        asked.append((gmis, num_env))
        return point(gmis, num_env, *table[gmis, num_env]) if (gmis, num_env) in table else None

    return measure, asked
