"""A task that wrote nothing leaves its directory to the next one, and nobody meets what is another's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from diel.worker.attempt.bundle import Request
from diel.worker.directory_pool import DirectoryPool
from tests.worker.bench import Bench, request, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as made:
        yield made


def shell(index: int, text: str, **params: object) -> Request:
    return request(index, "sh", "-c", text)._replace(params=params)


def names(bench: Bench, index: int) -> set[str]:
    folder = bench.paths.tasks / "s" / str(index)
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def test_each_command_finds_its_own_parameters_and_a_failed_one_keeps_them(bench: Bench) -> None:
    check = """[ "$(cat "$DIEL_PARAMS")" = '{"i": %d}' ] && [ "$PWD" = "$DIEL_TASK_DIR" ]"""
    requests = [shell(i, check % i, i=i) for i in (0, 1000, 2)]
    report = bench.run([*requests, shell(3, "exit 4", i=3), shell(4, "ls -A >&2", i=4), shell(5, "ls -A")])
    told = [record["event"] for _, record in report.records]
    assert told == ["done", "done", "done", "fail", "done", "done"]
    assert names(bench, 0) == names(bench, 1000) == set()
    assert names(bench, 3) == {".params.json"}
    assert json.loads((bench.paths.tasks / "s" / "3" / ".params.json").read_text()) == {"i": 3}
    assert names(bench, 4) == {".params.json", "stderr"}
    assert names(bench, 5) == set(), "it has no parameters, and finds none of another's"


def test_what_a_command_left_running_has_ended_before_the_next_task(bench: Bench) -> None:
    left = "setsid sh -c 'echo $$ > ../../pid; sleep 60; echo late > late' &"
    begun = "until [ -s ../../pid ]; do sleep 0.01; done"
    report = bench.run([shell(0, f"{left} {begun}"), shell(1, "! kill -0 $(cat ../../pid)")])
    assert [record["event"] for _, record in report.records] == ["done", "done"]
    assert names(bench, 0) == set()


def test_what_somebody_else_wrote_meanwhile_stays_out_of_the_next_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diel.worker.directory_pool.adopt", lambda: True)
    pool, work, before = DirectoryPool(), SimpleNamespace(module=None), tmp_path / "0"
    before.mkdir()
    os.utime(before, ns=(0, 0))  # before the tick of the kernel's clock in which the file comes
    pool.keep(work, str(before))  # type: ignore[arg-type]
    (before / "theirs").touch()
    pool.make(str(tmp_path / "1"), work, shell(1, "true"))  # type: ignore[arg-type]
    assert not any((tmp_path / "1").iterdir())
    assert (before / "theirs").exists()


def test_parameters_that_have_another_name_too_are_not_written_over(bench: Bench, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    bench.run([shell(0, f'ln "$DIEL_PARAMS" "{kept}"', i=0), shell(1, "true", i=1)])
    assert json.loads(kept.read_text()) == {"i": 0}


def test_what_a_function_left_running_has_ended_before_the_next_task(bench: Bench) -> None:
    module = bench.module("""
def made(i: int) -> dict:
    import os, time
    if not i:
        if not os.fork():
            if not os.fork():
                os.setsid()
                with open("../../pid", "w") as file:
                    file.write(str(os.getpid()))
                time.sleep(60)
            os._exit(0)
        os.wait()
        while not os.path.exists("../../pid") or not os.stat("../../pid").st_size:
            time.sleep(0.01)
        return {"lives": False}
    return {"lives": os.path.exists("/proc/" + open("../../pid").read())}
""")
    report = bench.run([request(i, params={"i": i}) for i in range(2)], module=module)
    assert [record["values"] for _, record in report.records] == [{"lives": False}, {"lives": False}]
