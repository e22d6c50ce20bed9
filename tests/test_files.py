import errno
import os
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.files import dump_yaml, explain, load_yaml, parse, replaced, whole, write_atomically
from gmi_drl.hardware.node import Node
from gmi_drl.layout.layout import Layout
from gmi_drl.scheduler.profile import Profile
from gmi_drl.yaml_text import read_yaml

LAYOUT = {
    "version": 2,
    "task": "ant",
    "devices": [
        {"kind": "cpu", "gmis": [{"id": 0, "num_env": 4, "cores": [0]}, {"id": 1, "num_env": 4, "cores": [1]}]}
    ],
    "groups": {"trainers": {"members": [0, 1], "reduction": "MPR-shm"}},
}


def test_all_mistakes_are_reported_at_once_with_their_place_and_a_suggestion():
    wrong = {
        "version": 2,
        "tasc": "ant",
        "devices": [{"kind": "tpu", "gmis": [{"id": 0, "num_envs": 4, "cores": [-1]}]}],
    }
    with pytest.raises(UsageError) as caught:
        parse(Layout, wrong, "layout.yaml")
    message = str(caught.value)
    assert "layout.yaml: 4 mistakes" in message
    assert "tasc: unknown key; did you mean 'task'?" in message
    assert "devices.0.gmis.0.num_envs: unknown key; did you mean 'num_env'?" in message
    assert "devices.0.kind" in message and "'tpu'" in message
    assert "devices.0.gmis.0.cores.0" in message and "-1" in message


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
PLACES = st.lists(st.sampled_from(["version", "gpus", "", "learner", "kind", "Gpus", 0, 7, -1]) | st.text(), max_size=4)
KINDS = st.sampled_from(["extra_forbidden", "missing", "model_type", "int_parsing_size", "value_error", "new_kind"])


@given(st.sampled_from([Layout, Node, RunConfig, Profile]), PLAIN, PLACES, KINDS, PLAIN)
def test_every_mistake_that_pydantic_could_tell_is_a_line(model, data, place, kind, value):
    if kind == "extra_forbidden" and not place:
        place = [""]  # a key is always of a place
    line = explain(model, data, {"type": kind, "loc": tuple(place), "msg": "is wrong", "input": value})
    assert line.startswith(".".join(map(str, place)) or "(file)")


@pytest.mark.parametrize(
    ("model", "text", "expected"),
    [
        (Layout, "version: 9223372036854775808", "version: this gmi-drl reads 2, not 9223372036854775808"),
        (RunConfig, "version: 9223372036854775808", "version: this gmi-drl reads 2, not 9223372036854775808"),
        (Node, "gpus: {? '' : {count: 1}}", "gpus"),
        (Node, "gpus: {? '' : [1], count: 2}", "gpus"),
        (RunConfig, "learner: {kind: nothing, gama: 1}", "learner: there is no learner 'nothing'"),
        (RunConfig, "? !!binary aGk=\n: 1", "not plain values"),
        (RunConfig, f"seed: 0x{'f' * 5000}", "not plain values"),
        (RunConfig, f"seed: {'[' * 900}{']' * 900}", "not plain values|Invalid JSON|seed"),
    ],
)
def test_what_no_model_foresees_is_told_as_well(tmp_path, model, text, expected):
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(UsageError, match=expected):
        load_yaml(model, tmp_path / "file.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1", "not valid YAML"),
        ("- 1", "expected `key: value` lines"),
        ("!!python/object/apply:os.system ['true']", "not valid YAML"),
        ("", "expected"),
    ],
)
def test_broken_yaml_is_refused(tmp_path, text, expected):
    path = tmp_path / "layout.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=expected):
        load_yaml(Layout, path)


def test_binary_and_missing_files_are_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UsageError, match="cannot be read"):
        load_yaml(Layout, tmp_path / "binary")
    with pytest.raises(UsageError, match="no such file"):
        load_yaml(Layout, tmp_path / "missing")


@pytest.mark.parametrize(
    "model", [parse(Layout, LAYOUT, "test"), parse(Node, {"name": "n", "cpu": {"cores": 4, "memory_gib": 8}}, "test")]
)
def test_what_is_written_is_read_back_equal(tmp_path, model):
    path = tmp_path / "file.yaml"
    write_atomically(path, dump_yaml(model))
    assert load_yaml(type(model), path) == model
    assert yaml.safe_load(path.read_text())["version"] == model.version


def test_a_name_that_looks_like_a_number_stays_a_name():
    node = parse(Node, {"name": "1e5", "cpu": {"cores": 4, "memory_gib": 8}}, "test")
    assert read_yaml(dump_yaml(node))["name"] == "1e5"


@pytest.mark.parametrize("mode", [0o600, 0o666, 0o444])
def test_a_file_keeps_its_mode_and_a_new_one_gets_the_usual(tmp_path, mode):
    path, before = tmp_path / "file", os.umask(0o027)
    try:
        write_atomically(path, "new")
        assert path.stat().st_mode & 0o777 == 0o640
        path.chmod(mode)
        write_atomically(path, "newer")
        assert path.stat().st_mode & 0o777 == mode and path.read_text() == "newer"
    finally:
        os.umask(before)


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")
    monkeypatch.setattr("os.fsync", lambda fd: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(("call", "number"), [("os.fsync", errno.ENOSPC), ("os.open", errno.EACCES)])
def test_an_error_of_the_disk_names_the_file_and_not_its_draft(tmp_path, monkeypatch, call, number):
    def fail(name, *_):
        raise OSError(number, os.strerror(number), *([] if call == "os.fsync" else [name]))

    with monkeypatch.context() as patch, pytest.raises(OSError, match=os.strerror(number)) as raised:
        patch.setattr(call, fail)
        write_atomically(tmp_path / "file", "new")
    assert (raised.value.errno, raised.value.filename) == (number, str(tmp_path / "file"))
    assert raised.value.filename2 is None and not [*tmp_path.iterdir()]


def test_a_folder_that_moves_while_a_file_in_it_is_written_gets_it(tmp_path, monkeypatch):
    """Held by a descriptor, as a run holds its checkpoints; what takes its name gets nothing."""
    folder, moved, fsync = tmp_path / "folder", tmp_path / "moved", os.fsync
    folder.mkdir()
    descriptor = os.open(folder, os.O_PATH)

    def move(written):
        folder.rename(moved)
        folder.mkdir()
        fsync(written)

    monkeypatch.setattr("os.fsync", move)
    write_atomically(Path(f"/proc/self/fd/{descriptor}/file"), "new")
    os.close(descriptor)
    assert (moved / "file").read_text() == "new" and not [*folder.iterdir()]


@pytest.mark.parametrize("left", ["nothing", "a draft and a former folder"])
def test_a_folder_that_is_replaced_is_whole_whenever_its_process_dies(tmp_path, left):
    """It dies before each of the calls that sync, rename and remove, in turn."""

    def write(text, calls):
        """Write both files in a process that dies at the call with this number. Returns whether it came so far."""
        if pid := os.fork():
            return os.waitpid(pid, 0)[1] != 0
        before = iter(range(calls))
        for module, name in ((os, "fsync"), (os, "rename"), (os, "rmdir"), (os, "unlink")):
            call = getattr(module, name)

            def counted(*args, _call=call, **more):
                if next(before, None) is None:
                    os._exit(1)
                return _call(*args, **more)

            setattr(module, name, counted)
        try:
            with replaced(folder) as draft:
                for name in ("a", "b"):
                    (draft / name).write_text(text)
        finally:
            os._exit(0)

    folder, found, calls = tmp_path / "folder", set(), 0
    has_died = True
    while has_died:
        for path in tmp_path.iterdir():
            shutil.rmtree(path)
        assert not write("old", 99)
        if left != "nothing":
            shutil.copytree(folder, tmp_path / ".folder.draft")
            folder.rename(tmp_path / ".folder.former")
        has_died, calls = write("new", calls), calls + 1
        texts = [path.read_text() for path in sorted(whole(folder).iterdir())]
        assert texts in (["old", "old"], ["new", "new"])
        found.add(texts[0])
        assert not write("newer", 99)
        assert [path.name for path in tmp_path.iterdir()] == ["folder"]
        assert [path.read_text() for path in folder.iterdir()] == ["newer", "newer"]
    assert calls > 4 and found == {"old", "new"}


def test_a_folder_whose_successor_fails_stays(tmp_path):
    folder = tmp_path / "folder"
    with replaced(folder) as draft:
        (draft / "a").write_text("old")
    with pytest.raises(KeyError), replaced(folder) as draft:
        (draft / "a").write_text("half")
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["folder"] and (folder / "a").read_text() == "old"


def test_a_copy_forgets_what_was_worked_out_of_the_former_values():
    layout = parse(Layout, LAYOUT, "layout.yaml")
    device = layout.devices[0].model_copy(update={"gmis": layout.devices[0].gmis[:1]})
    assert len(layout.gmis) == 2 and layout.num_env == 8
    alone = layout.model_copy(update={"devices": (device,)})
    assert len(alone.gmis) == 1 and alone.num_env == 4 and layout.model_copy().gmis is layout.gmis


def test_a_key_of_a_section_is_suggested_with_the_section():
    with pytest.raises(UsageError, match=r"horizon: unknown key; did you mean 'learner\.horizon'\?"):
        parse(RunConfig, {"horizon": 32}, "config.yaml")
    with pytest.raises(UsageError, match=r"num_env: unknown key; known: version"):  # of a list, which has no one key
        parse(Layout, {"num_env": 32}, "layout.yaml")


def test_known_names_are_listed_once():
    with pytest.raises(UsageError) as told:
        parse(Layout, {"nothing": 1, "nobody": 2}, "layout.yaml")
    assert str(told.value).count("known: version") == 1 and "  nobody: unknown key" in str(told.value)


def test_a_layout_in_place_of_a_configuration_is_told():
    with pytest.raises(UsageError, match=r"devices: of a layout file: .* `gmi-drl train layout\.yaml`"):
        parse(RunConfig, {"devices": []}, "layout.yaml")
