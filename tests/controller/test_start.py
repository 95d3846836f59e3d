"""Making runs, and taking them over: what is there before a controller begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.backends.blocks.block import EngineLost
from diel.base.errors import DielError, UsageError
from diel.controller.controller import Controller
from diel.controller.start import TIMES, create, discard, drive_on, refuse_unrunnable, start, take_over
from diel.planning.plan import Plan, prepare
from diel.store.project.lease import newest_epoch


@pytest.fixture
def plan(workspace: Path) -> Plan:
    (workspace / "w.yaml").write_text("diel: 1\nname: w\nstages: {one: {command: ['true']}}\n")
    return prepare(workspace / "w.yaml")


def test_a_run_has_its_text_its_site_and_what_was_asked_before_it_has_a_controller(plan: Plan) -> None:
    paths = create(plan, Path("runs"))
    assert paths.workflow.read_text() == plan.checked.document.text
    assert paths.site.exists()
    assert '"workflow": "w"' in paths.run_file.read_text()
    assert newest_epoch(paths) == 0


def test_an_unknown_stage_to_begin_at_is_refused_before_anything_is_made(plan: Plan) -> None:
    with pytest.raises(UsageError, match="no stage 'two'; stages: one"):
        create(plan, Path("runs"), begin_at="two")
    assert not Path("runs").exists()


def test_what_came_to_nothing_leaves_nothing(plan: Plan) -> None:
    paths = create(plan, Path("runs"))
    discard(paths, fresh=True)
    assert not Path("runs/w-1").exists()


@pytest.mark.parametrize("which", ["no_such_launcher", "${{ which }}"])
def test_a_launcher_that_is_not_here_is_told_by_its_stage(workspace: Path, which: str) -> None:
    (workspace / "w.yaml").write_text(f"""diel: 1
name: w
axes: {{which: {{values: [here, no_such_launcher]}}}}
stages: {{one: {{over: [which], command: ['true'], resources: {{ranks: 2, launcher: "{which}"}}}}}}
""")
    (workspace / "schedulers").mkdir()
    site = "name: bare\nscheduler: local\nlaunchers: {here: [env], no_such_launcher: [no-such-launcher]}\n"
    site += "launcher: here\npools: {here: {cores: 2}}\n"
    (workspace / "schedulers" / "bare.yaml").write_text(site)
    with pytest.raises(UsageError, match="stage 'one' needs 'no-such-launcher' for its ranks"):
        refuse_unrunnable(prepare(workspace / "w.yaml", site="bare"))


def test_a_controller_that_takes_over_has_the_next_epoch(plan: Plan) -> None:
    first = start(plan, Path("runs"))
    first._ledger.segment.close()
    paths = create(plan, Path("runs"))
    second = take_over(paths)
    second._ledger.segment.close()
    assert newest_epoch(first.paths) == newest_epoch(paths) == 1


def test_a_run_goes_on_where_its_engine_is_lost_but_not_for_ever(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = start(plan, Path("runs"))
    controller._ledger.segment.close()
    notes: list[str] = []
    monkeypatch.setattr("diel.controller.start.take_over", lambda paths: controller)
    monkeypatch.setattr(Controller, "note", lambda _, trouble: notes.append(trouble))

    def lose(_: Controller) -> int:
        raise EngineLost("the interchange ended")

    with pytest.raises(DielError, match="`diel resume w-1` takes them over"):
        drive_on(controller, lose)
    assert notes == ["the interchange ended; it is started again"] * TIMES
