"""Energy by this machine's counters: processors as the kernel shows them, GPUs as NVML does."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import diel.backends.blocks.local
from diel.worker import energy
from diel.worker.attempt import gpus
from diel.worker.energy import meter_for
from tests.cli.call import call

STUB = """
static unsigned long long millijoules = 1000;
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned number, void **device) { *device = (void *)(long)(number + 1); return 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *energy) {
    if (device == (void *)2) return 3;  /* not supported */
    *energy = millijoules += 500;
    return 0;
}
"""


@pytest.fixture
def powercap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The counters of a machine with two processors, and the memory of the first."""
    monkeypatch.setattr(energy, "library", lambda: None)
    monkeypatch.setattr(energy, "POWERCAP", str(tmp_path / "powercap"))
    monkeypatch.setattr(diel.backends.blocks.local, "MEASURED_BY", (str(tmp_path / "powercap"),))
    names = {"0": "package-0", "0:0": "core", "0:1": "dram", "1": "package-1"}
    for number, name in names.items():
        zone = tmp_path / "powercap" / f"intel-rapl:{number}"
        zone.mkdir(parents=True)
        (zone / "name").write_text(f"{name}\n")
        (zone / "max_energy_range_uj").write_text("100000000\n")
        (zone / "energy_uj").write_text("90000000\n")
    return tmp_path / "powercap"


def use(powercap: Path, number: str, microjoules: int) -> None:
    (powercap / f"intel-rapl:{number}" / "energy_uj").write_text(f"{microjoules}\n")


def kept(file: Path) -> Any:
    return json.loads(file.read_text())


def test_packages_and_memory_are_added_up_and_begin_anew_at_their_most(
    powercap: Path, tmp_path: Path
) -> None:
    file = tmp_path / "run" / "energy" / "m.json"
    file.parent.parent.mkdir()
    meter = meter_for(file)
    assert meter is not None
    use(powercap, "0", 95_000_000)  # 5 J
    use(powercap, "0:0", 99_000_000)  # a part of the package
    use(powercap, "0:1", 90_500_000)  # 0.5 J
    use(powercap, "1", 2_000_000)  # 12 J, over the end
    meter.look()
    assert not file.exists()  # it is not time yet
    meter.look(now=True)
    assert kept(file)["joules"] == {"RAPL": pytest.approx(17.5)}
    again = meter_for(file)  # as of a later controller on the same node
    assert again is not None
    use(powercap, "0", 96_000_000)
    (powercap / "intel-rapl:1" / "energy_uj").unlink()
    again.look(now=True)
    assert kept(file)["joules"] == {"RAPL": pytest.approx(18.5)}


def test_where_nothing_tells_nothing_is_measured(powercap: Path, tmp_path: Path) -> None:
    shutil.rmtree(powercap)
    assert meter_for(tmp_path / "m.json") is None


def test_gpus_tell_by_nvml_those_that_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to make a stand-in for NVML")
    library = tmp_path / "libnvidia-ml.so"
    words = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(words, input=STUB, text=True, check=True)
    pynvml = pytest.importorskip("pynvml", reason="needs nvidia-ml-py, of the extra `gpu`")
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(energy, "library", gpus.library.__wrapped__)
    monkeypatch.setattr(energy, "POWERCAP", str(tmp_path / "none"))
    meter = meter_for(tmp_path / "m.json")
    assert meter is not None
    meter.look(now=True)
    assert kept(tmp_path / "m.json")["joules"] == {"NVML": 0.5}


def test_a_run_tells_what_its_machine_used(
    powercap: Path, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    used = powercap / "intel-rapl:1" / "energy_uj"
    Path("flow.yaml").write_text(
        f"diel: 1\nname: flow\nstages: {{one: {{command: 'echo 93600000 > {used}'}}}}\n"
    )
    assert call(capsys, "run", "flow.yaml").code == 0
    assert "energy: 3.6 J of whole machines (RAPL 3.6 J)" in call(capsys, "status").out
    assert json.loads(call(capsys, "status", "--json").out)["energy"]["joules"] == {
        "RAPL": pytest.approx(3.6)
    }
    (workspace / "runs/flow-1/energy/other.json").write_text("[3]")
    assert "- energy: 3.6 J of whole machines" in call(capsys, "report").out


def test_a_run_that_nothing_measured_says_so(
    powercap: Path, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(powercap)
    Path("flow.yaml").write_text("diel: 1\nname: flow\nstages: {one: {command: 'true'}}\n")
    assert call(capsys, "run", "flow.yaml").code == 0
    assert "energy: not measured" in call(capsys, "status", "--all").out
    assert json.loads(call(capsys, "status", "--json").out)["energy"] is None
    assert "- energy: not measured" in call(capsys, "report").out
