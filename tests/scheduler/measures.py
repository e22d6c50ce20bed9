"""Made-up measurements."""

from gmi_drl.scheduler.profile import ProfilePoint


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

    def measure(cut):
        asked.append(cut)
        place = cut.gmis_per_gpu, cut.num_env
        return point(*place, *table[place]) if place in table else None

    return measure, asked
