import mujoco

from gmi_drl.tasks.sim.engine import stop_timers


def seconds_of_a_step():
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data)
    return data.timer[mujoco.mjtTimer.mjTIMER_STEP].duration


def test_no_clock_is_read():
    mujoco.set_mjcb_time(None)  # the package's own clock
    assert seconds_of_a_step() > 0
    stop_timers(mujoco)
    assert seconds_of_a_step() == 0
