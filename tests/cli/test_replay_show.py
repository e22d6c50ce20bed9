from threading import Thread

from gmi_drl.cli.replay.show import look, told
from gmi_drl.replay.limiters import MinSize
from tests.replay.servers import long_table, served, steps


def test_who_waits_is_told_with_what_is_missing():
    with served(long_table(limiter=MinSize(2))) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        assert told(server.address, look((server.address,), None)[server.address]) == []
        thread = Thread(target=lambda: client.sample("numbers", 1, timeout_s=60))
        thread.start()
        while not server.info()["tables"]["numbers"]["waiting_samples"]:
            pass
        found = look((server.address,), None)[server.address]
        (line,) = told(server.address, found)
        assert line.startswith(f"{server.address}/numbers: samples wait: ") and "1 are missing" in line
        one = found["tables"]["numbers"]
        one |= {"waiting_blocks": 1}
        assert told(server.address, found)[0].endswith("1 that insert and 1 that sample wait for each other")
        client.insert(steps(2), {"numbers": 1.0})
        thread.join()
