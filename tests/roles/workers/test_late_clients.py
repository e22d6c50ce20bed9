import threading

from gmi_drl.roles.launcher.connection import LauncherConnection, encode, socket_pair
from gmi_drl.roles.launcher.protocol import Lost, Stop
from gmi_drl.roles.workers.late_clients import LateClients


def test_who_comes_and_who_is_lost_is_told_once():
    launcher, ours = socket_pair()
    go, connection = threading.Event(), object()
    late = LateClients({3: lambda: go.wait(60) and connection}, LauncherConnection(ours.detach()))
    assert late._poll.poll(0) == []
    go.set()
    assert late._poll.poll(60) and late.take() == {3: connection}
    launcher.send(encode(Lost([4, 5])))
    launcher.send(encode(Stop()))
    assert late._poll.poll(60) and late.take() == {4: None, 5: None}
    assert late._poll.poll(0) == [] and late.take() == {}
    launcher.close()
