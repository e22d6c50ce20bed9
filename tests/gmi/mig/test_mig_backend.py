"""`mig` and `mig-ci` on the instances that are there."""

import os
import subprocess

import pytest

from gmi_drl.errors import LayoutMismatchError
from gmi_drl.gmi import backend_for, claim, claimed, this_node
from gmi_drl.gmi.claims import Shared
from gmi_drl.gmi.mig import backend, busy, instances
from gmi_drl.layout.layout import GMI, Device, Layout
from tests.gmi.mig.cut_by_mig import keep_to_itself
from tests.gmi.mig.gpus_with_mig import claimed_by_another_process, folder_of
from tests.gmi.nvml.fake import FakeGpu


@pytest.fixture(autouse=True)
def own_claims(tmp_path, monkeypatch):
    keep_to_itself(tmp_path, monkeypatch)


@pytest.fixture
def machine(fake_nvml):
    fake_nvml.add(FakeGpu(mig=("3g.71gb", "2g.35gb", "1g.18gb")))
    return fake_nvml


def layout(*profiles, backend="mig", index=0):
    gmis = tuple(GMI(id=i, num_env=1, cores=(0,), mig_profile=profile) for i, profile in enumerate(profiles))
    return Layout(backend=backend, share_cores=True, devices=(Device(kind="gpu", index=index, gmis=gmis),))


def visible(one):
    with claimed([one], "a test") as held, held.cut(one) as cut:
        return [cut.environment(gmi.id)["CUDA_VISIBLE_DEVICES"] for gmi in one.gmis]


def test_each_gmi_sees_one_instance_the_largest_first(machine):
    found = [(folder_of(machine, uuid) / "name").read_text().strip() for uuid in visible(layout(None, None))]
    assert found == ["3g.71gb", "2g.35gb"]


def test_a_profile_that_is_named_is_given(machine):
    (small,) = visible(layout("1g.18gb"))
    folder = folder_of(machine, small)
    assert (folder / "name").read_text().strip() == "1g.18gb"


def test_what_is_missing_is_told_with_what_is_there(machine):
    with pytest.raises(LayoutMismatchError, match=r"no MIG instance for GMI 3, it has .*--apply-mig"):
        visible(layout(None, None, None, None))
    with pytest.raises(LayoutMismatchError, match=r"no MIG instance for GMI 0 \(7g.141gb\)"):
        visible(layout("7g.141gb"))


def test_without_mig_mode_or_without_mig_it_is_refused(fake_nvml):
    fake_nvml.add(FakeGpu(), FakeGpu("NVIDIA L4"))
    with pytest.raises(LayoutMismatchError, match="it has none, as MIG mode is off"):
        visible(layout(None))
    with pytest.raises(LayoutMismatchError, match="has no MIG: take another --backend"):
        visible(layout(None, index=1))
    cores = Layout(backend="mig", devices=(Device(kind="cpu", gmis=(GMI(id=0, num_env=1, cores=(0,)),)),))
    with pytest.raises(LayoutMismatchError, match="cpu 0 is no GPU"):
        visible(cores)


def test_an_instance_that_the_variable_names_is_all_there_is(machine, monkeypatch):
    chosen = machine.mig_uuids(0)[1]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert visible(layout(None)) == [chosen]
    with pytest.raises(LayoutMismatchError, match="CUDA_VISIBLE_DEVICES shows this MIG device"):
        visible(layout(None, None))


def test_instances_in_use_are_left_to_those_who_use_them(machine):
    first = visible(layout(None))
    folder = folder_of(machine, first[0])
    (folder / "processes").mkdir()
    (folder / "processes/4321").write_text("1")
    assert visible(layout(None)) != first
    with pytest.raises(LayoutMismatchError, match=r"is in use by process 4321: wait for it"):
        visible(layout(None, None, None))


def test_instances_that_another_run_has_claimed_are_left_to_it(machine):
    (first,) = visible(layout(None))
    with claimed_by_another_process(f"gpu-{first}"):
        (second,) = visible(layout(None))
        assert second != first
        with pytest.raises(LayoutMismatchError, match="a run that has claimed it"):
            visible(layout(None, None, None))


def test_what_this_process_uses_itself_is_not_in_use(machine):
    """A plan checks its next layout while the one before still runs."""
    one = layout(None)
    with claimed([one], "a plan") as held, held.cut(one) as cut, subprocess.Popen(["sleep", "60"]) as gmi:
        uuid = cut.environment(0)["CUDA_VISIBLE_DEVICES"]
        processes = folder_of(machine, uuid) / "processes"
        processes.mkdir()
        for pid in (os.getpid(), gmi.pid):
            (processes / str(pid)).write_text("1")
        assert backend_for(one).check(this_node(), layout(None, None, None)) == []
        gmi.kill()


def test_a_process_on_an_instance_holds_its_gpu_with_others(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", machine.mig_uuids(0)[1])
    whole, one = f"gpu-{machine.uuid(0)}", layout(None, backend="process")
    with claimed([one], "a"), claim([Shared(whole)], "b"), pytest.raises(LayoutMismatchError), claim([whole], "c"):
        pass


def test_a_gpu_of_which_an_instance_is_used_is_cut_by_nobody(machine):
    one = layout(None)
    whole = f"gpu-{machine.uuid(0)}"
    with claimed([one], "a test"), pytest.raises(LayoutMismatchError, match="in use by"), claim([whole], "b"):
        pass
    with claim([whole], "b"), pytest.raises(LayoutMismatchError, match="in use by"), claimed([one], "a test"):
        pass


def test_compute_instances_share_one_gpu_instance(fake_nvml):
    fake_nvml.add(FakeGpu("NVIDIA A100-SXM4-40GB", mig=("3g.20gb", "3g.20gb")))
    for instance, parts in ((1, ("1c", "1c")), (2, ("1c", "1c", "1c"))):
        for number, name in enumerate(parts):
            own = f"gpus/0/gi/{instance}/ci/{number}"
            fake_nvml.write(f"{own}/uuid", f"MIG-{instance}-{number}")
            fake_nvml.write(f"{own}/name", f"{name}.3g.20gb")
            fake_nvml.write(f"{own}/sms", 14)
    three = visible(layout(None, None, None, backend="mig-ci"))
    assert sorted(three) == ["MIG-2-0", "MIG-2-1", "MIG-2-2"]
    with pytest.raises(LayoutMismatchError, match="has no MIG instance for GMI 3"):
        visible(layout(*[None] * 4, backend="mig-ci"))
    with pytest.raises(LayoutMismatchError, match="has no MIG instance for GMI 0, it has none"):
        visible(layout(None))


def test_a_process_is_proved_to_be_on_its_instance(machine, monkeypatch):
    one, pid = layout(None), os.getpid()
    monkeypatch.setattr(instances, "LISTED_S", 0.1)
    monkeypatch.setattr(instances, "hides_processes", lambda: False)
    with claimed([one], "a test") as held, held.cut(one) as cut:
        with pytest.raises(LayoutMismatchError, match=r"does not compute on its MIG device MIG-.*nobody"):
            cut.prove_on_device(0, pid)
        uuid = cut.environment(0)["CUDA_VISIBLE_DEVICES"]
        folder = folder_of(machine, uuid)
        (folder / "processes").mkdir()
        (folder / f"processes/{pid}").write_text("1")
        cut.prove_on_device(0, pid)


def test_where_processes_are_hidden_nothing_is_proved(machine, monkeypatch, tmp_path):
    monkeypatch.setattr(instances, "hides_processes", lambda: True)
    one = layout(None)
    with claimed([one], "a test") as held, held.cut(one) as cut:
        cut.prove_on_device(0, os.getpid())
    (tmp_path / "pid").write_text("")
    assert busy.hides_processes(tmp_path) and busy.hides_processes(tmp_path / "nothing")


def test_of_two_that_choose_the_same_instance_the_second_gets_another(machine, monkeypatch):
    """It is claimed after they have looked who uses what."""
    (first,) = visible(layout(None))
    looked = []

    def look(gpus):
        looked.append(gpus)
        return {} if len(looked) == 1 else busy.in_use(gpus)

    monkeypatch.setattr(backend, "in_use", look)
    with claimed_by_another_process(f"gpu-{first}"):
        assert visible(layout(None)) != [first]
    assert len(looked) == 2


def test_what_another_run_goes_on_holding_is_refused_after_a_second_look(machine, monkeypatch):
    (first,) = visible(layout(None))
    monkeypatch.setattr(backend, "in_use", lambda gpus: {})
    with (
        claimed_by_another_process(f"gpu-{first}"),
        pytest.raises(LayoutMismatchError, match=r"gpu-MIG-\S+ is in use by process .* CUDA_VISIBLE_DEVICES=LIST"),
    ):
        visible(layout(None))


def test_of_two_gpu_instances_the_idle_one_is_taken(fake_nvml):
    fake_nvml.add(FakeGpu("NVIDIA A100-SXM4-40GB", mig=("3g.20gb", "3g.20gb")))
    for used, idle in (fake_nvml.mig_uuids(0), reversed(fake_nvml.mig_uuids(0))):
        processes = folder_of(fake_nvml, used) / "processes"
        processes.mkdir()
        (processes / "4321").write_text("1")
        assert visible(layout(None, backend="mig-ci")) == [idle]
        (processes / "4321").unlink()
