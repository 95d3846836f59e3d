"""The lines of a journal that name a stage, where there are many stages."""

from __future__ import annotations

from pathlib import Path

from diel.journal.segment import decode
from diel.results import Recorded
from diel.results.lines import LinesByStage, lines_of, results_of
from tests.handmade import Handmade

STAGES = [f"s{number}" for number in range(60)]
FLOW = "stages:\n" + "".join(
    f"  {name}: {{command: [x], outputs: {{e: {{value: float}}}}}}\n" for name in STAGES
)


def test_a_line_is_found_by_each_stage_that_it_names_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    both = '{"stage":"a","of":{"stage":"b"}}'
    path.write_text(f'{both}\n{{"event":"end"}}\n{{"stage":"a","n":2', encoding="utf-8")
    lines = LinesByStage(path)
    assert [list(lines.of(name)) for name in "abc"] == [[both.encode()], [both.encode()], []]
    with path.open("a", encoding="utf-8") as file:
        file.write("}\n")
    assert list(lines.of("a")) == [both.encode(), b'{"stage":"a","n":2}']


def test_of_many_stages_each_has_its_own_results_also_those_that_came_later(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW)
    for number, name in enumerate(STAGES):
        run.stage(name, 1).done(name, 0, e=float(number))
    recorded = Recorded(run.paths)
    assert [recorded.records(name)[0] for name in STAGES] == [
        {"values": {"e": float(number)}, "artifacts": {}} for number in range(60)
    ]
    before = [record["event"] for _, record in recorded.attempts("s7", 0)]
    run.work("start", "s7", 0, 2)
    assert [record["event"] for _, record in recorded.attempts("s7", 0)] == [*before, "start"]


def test_the_results_of_some_tasks_are_found_among_those_whose_names_begin_alike(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    tasks = [(stage, index) for stage in ("a", "ab", "b") for index in (0, 1, 7, 10, 11, 77, 100)]
    path.write_text(
        "".join(
            f'{{"event":"{event}","stage":"{stage}","index":{index},"attempt":1}}\n'
            for stage, index in tasks
            for event in ("start", "done")
        ),
        encoding="utf-8",
    )
    for wanted in (tasks, tasks[3:12:2], [("ab", 1), ("ab", 100), ("b", 10), ("c", 1)], []):
        found = [decode(line) for line in lines_of(path, results_of(wanted))]
        told = [
            (record["stage"], record["index"]) for record in found if record and record["event"] == "done"
        ]
        assert (len(found), told) == (len(told), [task for task in tasks if task in wanted])
