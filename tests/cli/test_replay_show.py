from threading import Thread

import pytest

from gmi_drl.cli.replay.calls import token_of
from gmi_drl.cli.replay.show import look, print_servers, told
from gmi_drl.errors import UsageError
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


def test_a_table_of_any_name_is_shown(capsys):
    counts = {f"waiting_{what}": 0 for what in ("inserts", "samples", "blocks")}
    counts |= {"items": 1, "max_size": 2, "inserts": 3, "samples": 4, "inserts_per_second": 5, "samples_per_second": 6}
    print_servers({"host:1": {"tables": {"a[b]": counts, "[/c]": counts}}})
    printed = capsys.readouterr().out
    assert "a[b]" in printed and "[/c]" in printed


def test_a_token_file_that_is_no_text_is_no_token(tmp_path):
    (tmp_path / "my token").write_bytes(b"\xff" * 32)
    (tmp_path / "my token").chmod(0o600)
    with pytest.raises(UsageError, match="a token has 32 letters of ASCII"):
        token_of(tmp_path / "my token")
    (tmp_path / "my token").chmod(0o644)
    with pytest.raises(UsageError, match=r"can be read by others: chmod 600 '.*my token'"):
        token_of(tmp_path / "my token")
