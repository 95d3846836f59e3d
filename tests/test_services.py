"""Services as a user sees them: when they start, who finds them, what happens when they die."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.serving import HANDLER
from tests.throwaway import Project, Run, wait_for

MODULES = (
    HANDLER
    + """
    import os, signal, subprocess, time, urllib.error, urllib.request
    import psutil

    class Handler(Answering):
        def do_GET(self):
            if self.path == "/health":
                if self.server.silent:
                    time.sleep(60)
                return self.answer("ok")
            if self.headers.get("Authorization") != f"Bearer {self.server.token}":
                return self.answer({"error": "no token"}, 401)
            if self.path == "/die":
                os._exit(9)
            if self.path == "/silence":
                self.server.silent = True
            self.answer({"pid": os.getpid(), "greeting": self.server.greeting})

        def do_POST(self):
            body = self.read()
            if self.headers.get("Authorization") != f"Bearer {self.server.token}":
                return self.answer({"error": "no token"}, 401)
            if self.path == "/refused":
                return self.answer({"error": "it is worse"}, 409)
            self.server.greeting = body["greeting"]
            self.answer("ok")

    @diel.module(kind="inference")
    def echo(context: diel.Context, greeting: str = "hello"):
        serve_at(context, Handler, greeting=greeting, token=context.service_token, silent=False)

    @diel.module(kind="inference")
    def stubborn(context: diel.Context):
        # Ignores SIGTERM, as a process does that it has put into a session of its own.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        echo(context)

    def environment():
        return {name: value for name, value in os.environ.items() if name.startswith("DIEL_SERVICE_")}

    @diel.module(kind="analysis")
    def ask(context: diel.Context, path: str = "/", times: int = 1, service: str = "serve"):
        client = context.service(service)
        said = [client.get(path) for _ in range(times)]
        return {"pids": [one["pid"] for one in said], "greeting": said[-1]["greeting"], "began": time.time(),
                "url": environment()[f"DIEL_SERVICE_{service.upper()}_URL"],
                "urls": environment()[f"DIEL_SERVICE_{service.upper()}_URLS"]}

    @diel.module(kind="analysis")
    def end(context: diel.Context, name: str, o: list):
        assert (context.run_dir / "go").exists()
        return {"greeting": context.service("serve").get("/")["greeting"]}

    @diel.module(kind="analysis")
    def late(context: diel.Context, n: int):
        client = context.service("serve")
        greeting = client.get("/")["greeting"]
        (context.run_dir / "go").touch()
        while greeting == "nobody":
            greeting = client.get("/")["greeting"]
        return {"greeting": greeting}

    @diel.module(kind="analysis")
    def last(context: diel.Context, wrong: float, x: float):
        return {"greeting": context.service("serve").get("/")["greeting"], "pid": x}

    @diel.module(kind="analysis")
    def refused(context: diel.Context):
        try:
            urllib.request.urlopen(environment()["DIEL_SERVICE_SERVE_URL"] + "/")
        except urllib.error.HTTPError as error:
            return {"code": error.code}

    @diel.module(kind="analysis")
    def hurt(context: diel.Context, path: str = "/die"):
        client = context.service("serve")
        first = client.get("/")["pid"]
        client.patience = client.timeout = 0.05
        try:
            client.get(path)
        except diel.base.errors.DielError:
            pass
        client.patience = client.timeout = 30.0
        end = time.time() + 30
        while (last := client.get("/")["pid"]) == first and time.time() < end:
            time.sleep(0.05)
        return {"first": first, "last": last}

    @diel.module(kind="analysis")
    def bereave(context: diel.Context):
        client = context.service("serve")
        psutil.Process(client.get("/")["pid"]).parent().parent().kill()
        file = context.run_dir / "services" / "serve" / "0.json"
        end = time.time() + 30
        while json.loads(file.read_text())["state"] == "ready" and time.time() < end:
            time.sleep(0.05)
        client.patience = 0.0
        try:
            return {"said": str(client.get("/"))}
        except diel.base.errors.DielError as error:
            return {"said": str(error)}

    def left():
        for process in psutil.process_iter():
            try:
                environ = process.environ()
            except (psutil.Error, OSError):
                continue
            if environ.get("DIEL_RUN_DIR") == os.environ["DIEL_RUN_DIR"] and environ.get("DIEL_STAGE") == "serve":
                yield process

    @diel.module(kind="analysis")
    def after(context: diel.Context):
        file = context.run_dir / "services" / "serve" / "0.json"
        before = len(list(left()))
        end = time.time() + 30
        while json.loads(file.read_text())["state"] != "stopped" and time.time() < end:
            time.sleep(0.05)
        return {"before": before, "left": [" ".join(process.cmdline()) for process in left()]}

    @diel.module(kind="analysis")
    def bare():
        return {"names": list(environment())}
"""
)


def project(folder: Path, text: str) -> Project:
    return Project(folder).module("tools", MODULES).workflow(text)


def service_records(run: Run, state: str = "", stage: str = "serve") -> list[dict[str, Any]]:
    found = run.records("service", stage)
    return [record for record in found if not state or record["state"] == state]


def status(project: Project, run: str = "last") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(project.diel("status", run, "--json"))
    return found


# --- one run that many tests look at --------------------------------------------------------------

SHARED = """
    axes: {n: {range: 12}}
    stages:
      make: {command: 'echo "{\\"greeting\\": \\"moin\\"}" > "$DIEL_RESULT"', outputs: {greeting: {value: str}}}
      late: {command: [sleep, "0.7"]}
      serve:
        module: "tools:echo"
        inputs: {greeting: make.greeting}
        service: {ready: {http: /health}, replicas: 2, shared_cores: true}
      ask: {over: [n], after: [late], module: "tools:ask", services: [serve], params: {times: 4}}
      refused: {after: [late], module: "tools:refused", services: [serve]}
      shell:
        command: >
          python3 -c "import os, urllib.request as u; e = os.environ;
          r = u.Request(e['DIEL_SERVICE_SERVE_URL'], headers={'Authorization': 'Bearer ' + e['DIEL_SERVICE_SERVE_TOKEN']});
          print(u.urlopen(r).read().decode())"
        after: [late]
        services: [serve]
      bare: {module: "tools:bare", after: [ask]}
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return project(tmp_path_factory.mktemp("shared"), SHARED)


@pytest.fixture(scope="module")
def shared_run(shared: Project) -> Run:
    """Its first run: one of the tests makes another."""
    return shared.run()


def test_a_service_starts_when_all_else_that_a_consumer_needs_is_there(shared_run: Run) -> None:
    (late,) = shared_run.results("late").values()
    started = [record["time"] for record in service_records(shared_run, "starting")]
    assert len(started) == 2
    assert min(started) >= late["time"]


def test_consumers_begin_when_every_replica_is_ready(shared_run: Run) -> None:
    ready = [record["time"] for record in service_records(shared_run, "ready")]
    assert len(ready) == 2
    assert min(shared_run.values("ask", "began")) > max(ready)


def test_consumers_of_any_language_find_it_and_it_reads_by_the_ordinary_edges(
    shared: Project, shared_run: Run
) -> None:
    assert json.loads(shared.diel("logs", shared_run.id, "shell"))["greeting"] == "moin"


def test_consumers_take_turns_at_the_replicas(shared_run: Run) -> None:
    urls = shared_run.values("ask", "url")
    every = shared_run.values("ask", "urls")[0].split(",")
    assert len(every) == 2
    assert [every.index(url) for url in urls] == [n % 2 for n in range(12)]


def test_a_client_spreads_its_requests_over_the_replicas(shared_run: Run) -> None:
    pids = [pid for found in shared_run.values("ask", "pids") for pid in found]
    assert len(set(pids)) == 2
    assert pids.count(pids[0]) == len(pids) // 2


def test_who_does_not_show_the_token_is_refused(shared_run: Run) -> None:
    assert shared_run.value("refused", "code") == 401


def test_the_token_is_in_one_file_that_nobody_else_may_read(shared_run: Run) -> None:
    file = shared_run.root / "services" / "token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = file.read_bytes()
    others = [path for path in shared_run.root.rglob("*") if path.is_file() and path != file]
    assert len(others) > 20
    assert not [path for path in others if token in path.read_bytes()]


def test_stages_that_ask_no_service_are_told_of_none(shared_run: Run) -> None:
    assert shared_run.value("bare", "names") == []


def test_a_service_ends_well_after_its_last_consumer_and_leaves_no_process(shared_run: Run) -> None:
    assert shared_run.counts("serve") == {"done": 2}
    pids = {pid for found in shared_run.values("ask", "pids") for pid in found}
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    last = max(record["time"] for record in shared_run.results("ask").values())
    assert min(record["time"] for record in service_records(shared_run, "stopped")) >= last


def test_status_tells_of_services(shared: Project, shared_run: Run) -> None:
    told = status(shared, shared_run.id)["services"]["serve"]
    assert (told["ready"], told["restarts"], [one["state"] for one in told["replicas"]]) == (
        0,
        0,
        ["stopped"] * 2,
    )
    assert "service serve: 2 replicas stopped" in shared.diel("status", shared_run.id)


def test_what_is_cached_needs_no_service(shared: Project, shared_run: Run) -> None:
    run = shared.run()
    assert run.id != shared_run.id
    assert run.counts("ask") == {"cached": 12}
    assert run.counts("serve") == {"skipped": 2}
    assert not service_records(run)


def test_results_depend_on_what_the_service_has_read(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        hyperparameters: {word: {type: str, default: moin}}
        stages:
          serve:
            module: "tools:echo"
            params: {greeting: "${{ hp.word }}"}
            service: {ready: {http: /health}, shared_cores: true}
          ask: {module: "tools:ask", services: [serve]}
        """,
    )
    assert made.run().value("ask", "greeting") == "moin"
    run = made.run("--set", "hp.word=ahoi")
    assert run.value("ask", "greeting") == "ahoi"
    assert "service serve: hp.word: moin → ahoi" in made.diel("explain", "last", "ask/0")


@pytest.mark.parametrize(
    ("reads", "place"),
    [("files: {d: text}", "text"), ("inputs: {greeting: make.d}", "runs/flow-1/tasks/make/0/text")],
)
def test_who_asks_a_service_fails_once_what_that_reads_is_another(
    tmp_path: Path, reads: str, place: str
) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text/a.txt").write_text("one\n")
    made = project(
        tmp_path,
        f"""
        stages:
          make: {{command: "mkdir text; echo one > text/a.txt", outputs: {{d: text}}}}
          serve:
            {reads}
            module: "tools:echo"
            service: {{ready: {{http: /health}}, shared_cores: true}}
          ask: {{module: "tools:ask", services: [serve]}}
          edit: {{command: 'echo two > "$DIEL_RUN_DIR/../../{place}/a.txt"', after: [ask, make]}}
          late: {{module: "tools:ask", services: [serve], after: [edit]}}
        """,
    )
    run = made.run(code=1)
    assert run.counts("ask") == {"done": 1}
    assert run.counts("late") == {"failed": 1}
    assert run.failure("late")["class"] == "changed"


def test_cancelling_a_run_ends_its_services(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        stages:
          serve: {module: "tools:echo", service: {ready: {http: /health}, shared_cores: true}}
          ask: {module: "tools:ask", services: [serve]}
          hold: {command: [sleep, "60"], after: [ask], services: [serve]}
        """,
    )
    process = made.start("run", "flow.yaml")
    wait_for((tmp_path / "runs/flow-1/tasks/hold/0").exists)
    made.diel("cancel", "last")
    made.end(process, code=3)
    run = made.newest()
    assert run.counts("serve") in ({"cancelled": 1}, {"done": 1}), "it may be told before that nobody asks it"
    assert not psutil.pid_exists(run.value("ask", "pids")[0])


# --- what goes wrong ------------------------------------------------------------------------------


def test_a_service_that_dies_is_restarted_and_found_again(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        stages:
          serve:
            module: "tools:echo"
            service: {ready: {http: /health}, shared_cores: true}
          hurt: {module: "tools:hurt", services: [serve]}
        """,
    )
    run = made.run()
    assert run.value("hurt", "first") != run.value("hurt", "last")
    (why,) = [one["message"] for one in service_records(run, "restarting") if "message" in one]
    assert why == "ended with exit code 9"
    assert status(made)["services"]["serve"]["restarts"] == 1
    assert run.counts("serve") == {"done": 1}


def test_an_idle_service_that_ignores_sigterm_leaves_no_process_and_starts_again_on_need(
    tmp_path: Path,
) -> None:
    made = project(
        tmp_path,
        """
        stages:
          serve:
            module: "tools:stubborn"
            service: {ready: {log: listening}, stop: 100ms, idle: 500ms, shared_cores: true}
          ask: {module: "tools:ask", services: [serve]}
          after: {module: "tools:after", after: [ask]}
          again: {module: "tools:ask", services: [serve], after: [after]}
        """,
    )
    run = made.run()
    assert run.value("after", "before") >= 2, "it was up until then, and what it had started as well"
    assert run.value("after", "left") == []
    assert run.value("ask", "pids") != run.value("again", "pids")
    assert len(service_records(run, "ready")) == 2
    assert [one["class"] for one in run.records("fail", "serve")] == ["interrupted"]
    assert run.counts("serve") == {"done": 1}
    assert run.results("serve")[0]["attempt"] == 2


def test_a_service_that_falls_silent_is_restarted(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        stages:
          serve:
            module: "tools:echo"
            service: {ready: {http: /health}, silence: 500ms, stop: 100ms, shared_cores: true}
          hurt: {module: "tools:hurt", services: [serve], params: {path: /silence}}
        """,
    )
    run = made.run()
    assert run.value("hurt", "first") != run.value("hurt", "last")
    (why,) = [one["message"] for one in service_records(run, "restarting") if "message" in one]
    assert why == "did not answer its ready check for 0.5 s"


def test_consumers_of_a_service_that_never_comes_up_fail_with_it(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        stages:
          serve:
            command: "echo no such model >&2; exit 3"
            service: {restarts: 1}
          ask: {module: "tools:ask", services: [serve]}
        """,
    )
    run = made.run(code=1)
    assert run.counts("ask") == {"skipped": 1}
    failure = run.failure("serve")
    assert failure["message"] == (
        "the service ended with exit code 3 before it was ready; it was restarted 1 time"
    )
    assert "no such model" in failure["stderr_tail"]


def test_a_service_whose_worker_is_lost_for_good_is_told_of_as_failed(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        stages:
          serve:
            module: "tools:echo"
            service: {ready: {http: /health}, shared_cores: true}
            on: {node: {retries: 0}}
          bereave: {module: "tools:bereave", services: [serve]}
        """,
    )
    run = made.run(code=1)
    assert "it is failed" in run.value("bereave", "said")
    assert status(made)["services"]["serve"]["replicas"][0]["message"] == "its worker was lost"


def test_a_service_that_is_not_ready_in_time_fails(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        stages:
          serve:
            command: [sleep, "60"]
            service: {ready: {log: ready}, restarts: 0, startup: 300ms}
          ask: {module: "tools:ask", services: [serve]}
        """,
    )
    run = made.run(code=1)
    assert run.failure("serve")["message"] == "the service was not ready within 0.3 s"


# --- when it is up --------------------------------------------------------------------------------


def test_a_service_over_an_axis_has_one_for_each_point_also_where_not_all_fit(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        axes: {city: {values: [a, b, c]}, n: {range: 2}}
        stages:
          serve:
            module: "tools:echo"
            over: [city]
            params: {greeting: "${{ city }}"}
            service: {ready: {http: /health}}
          ask: {over: [n, city], module: "tools:ask", services: [serve]}
        """,
    )
    run = made.machine("two", 2).run("--site", "two")
    assert run.values("ask", "greeting") == ["a", "b", "c"] * 2
    assert run.counts("serve") == {"done": 3}
    up = 0
    events = sorted((one["time"], one["state"]) for one in service_records(run))
    for _, state in events:
        up += (state == "starting") - (state == "stopped")
        assert up <= 1, "two services hold both cores, and no consumer would fit"


def test_a_service_may_ask_another(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        stages:
          inner: {module: "tools:echo", params: {greeting: inner}, service: {shared_cores: true}}
          serve: {module: "tools:echo", services: [inner], service: {shared_cores: true}}
          ask: {module: "tools:ask", services: [serve]}
        """,
    )
    run = made.run()
    ready = {stage: service_records(run, "ready", stage)[0]["time"] for stage in ("inner", "serve")}
    assert ready["inner"] < ready["serve"]
    assert run.counts("inner") == {"done": 1}
    token = run.root / "services" / "token"
    others = [path for path in run.root.rglob("*") if path.is_file() and path != token]
    assert not [path for path in others if token.read_bytes() in path.read_bytes()]


def test_newer_inputs_reach_a_running_service_round_by_round(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        axes: {round: {loop: {max: 3}}}
        stages:
          serve:
            module: "tools:echo"
            inputs: {greeting: {from: learn.name, at: {round: last}, initially: nobody}}
            service: {ready: {http: /health}, reload: true, shared_cores: true}
          ask: {over: [round], module: "tools:ask", services: [serve], after: [wait]}
          wait: {over: [round], command: ["true"], inputs: {before: {from: learn.name, at: {round: previous}, initially: ""}}}
          learn:
            over: [round]
            command: 'echo "{\\"name\\": \\"${{ ask.greeting }}-${{ round }}\\"}" > "$DIEL_RESULT"'
            outputs: {name: {value: str}}
        """,
    )
    run = made.run()
    assert run.values("ask", "greeting") == ["nobody", "nobody-0", "nobody-0-1"]
    assert len({tuple(pids) for pids in run.values("ask", "pids")}) == 1, "it stayed up"
    assert len(service_records(run, "ready")) == 1


RELOADING = """
    axes: {round: {loop: {max: ROUNDS}}, n: {range: 2}}
    stages:
      serve:
        module: "tools:echo"
        inputs: {greeting: {from: learn.name, at: {round: last}, initially: nobody}}
        service: {ready: {http: /health}, reload: true, shared_cores: true}
"""


def test_a_consumer_in_a_round_waits_for_what_its_service_reads_of_the_round_before(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        RELOADING.replace("ROUNDS", "6")
        + """
      ask: {over: [round], module: "tools:ask", services: [serve]}
      learn:
        over: [round]
        command: 'echo "{\\"name\\": \\"${{ round }}\\"}" > "$DIEL_RESULT"'
        outputs: {name: {value: str}}
        after: [ask]
    """,
    )
    run = made.run()
    assert run.values("ask", "greeting") == ["nobody", "0", "1", "2", "3", "4"]
    assert made.run().counts("ask") == {"cached": 6}


def test_a_result_goes_under_the_key_of_the_model_that_answered(tmp_path: Path) -> None:
    """The first task is answered by both models, the second, which waits for room, by the newer one alone."""
    made = project(
        tmp_path,
        RELOADING.replace("ROUNDS", "1")
        + """
      late:
        over: [n]
        module: "tools:late"
        services: [serve]
        resources: {cores_per_rank: 3}
      learn:
        over: [round]
        command: |
          until test -e "$DIEL_RUN_DIR/go"; do read -t 0.05 <> <(:) || true; done
          echo '{"name": "newer"}' > "$DIEL_RESULT"
        outputs: {name: {value: str}}
    """,
    )
    made.machine("wide", 4)
    run = made.run("--site", "wide")
    assert run.values("late", "greeting") == ["newer", "newer"]
    keys = [record["key"] for _, record in sorted(run.results("late").items())]
    assert keys[0] == ""
    assert keys[1] not in ("", keys[0])


DISTURBED = (
    RELOADING.replace("ROUNDS", "3")
    + """
      first: {over: [round, n], command: 'FIRST || test -e "$DIEL_RUN_DIR/go"'}
      ask:
        over: [round, n]
        services: [serve]
        after: [first]
        command: |
          python3 -c "import os, urllib.request as u; e = os.environ
          r = u.Request(e['DIEL_SERVICE_SERVE_URL'], headers={'Authorization': 'Bearer ' + e['DIEL_SERVICE_SERVE_TOKEN']})
          print(u.urlopen(r).read().decode())" | tee o > "$DIEL_RESULT"
        outputs: {pid: {value: int}, greeting: {value: str}, o: o}
      learn:
        over: [round]
        command: 'echo "{\\"name\\": \\"${{ round }}\\"}" > "$DIEL_RESULT"'
        outputs: {name: {value: str}}
        after: [ask]
      check: {over: [round], module: "tools:ask", services: [serve], after: [learn]}
      end:
        inputs: {name: {from: learn.name, at: {round: last}}, o: ask.o}
        module: "tools:end"
        services: [serve]
    """
)


def greetings(made: Project, stage: str) -> list[str]:
    """What answered the tasks whose results count."""
    rows = json.loads(made.diel("results", stage, "--json").splitlines()[0])["rows"]
    return [row[f"{stage}.greeting"] for row in rows]


@pytest.mark.parametrize("first", ["test ${{ round }}${{ n }} != 10", "true"])
def test_a_resumed_round_is_answered_by_the_model_of_the_round_before(tmp_path: Path, first: str) -> None:
    """A task of the second round has failed, or its file is removed when all rounds are over."""
    made = project(tmp_path, DISTURBED.replace("FIRST", first))
    run = made.run(code=1)
    if first == "true":
        (run.task_dir("ask", 2) / "o").unlink()
    (run.root / "go").touch()
    made.diel("resume")
    answers = {stage: greetings(made, stage) for stage in ("ask", "check", "end")}
    assert answers == {
        "ask": ["nobody", "nobody", "0", "0", "1", "1"],
        "check": ["0", "1", "2"],
        "end": ["2"],
    }


def test_what_waits_for_the_end_of_a_loop_is_answered_by_its_last_model(tmp_path: Path) -> None:
    """The loop is over while its last training goes on, and trials of a search come one by one."""
    made = project(
        tmp_path,
        RELOADING.replace("ROUNDS", "5, until: judge.wrong > 1").replace(
            "n: {range: 2}",
            "trial: {search: {trials: 3, parallel: 1, seed: 1, minimize: late.pid, parameters: [x]}}",
        )
        + """
      ask: {over: [round], module: "tools:ask", services: [serve]}
      judge:
        over: [round]
        command: 'echo "{\\"wrong\\": ${{ round }}}" > "$DIEL_RESULT"'
        outputs: {wrong: {value: float}}
        after: [ask]
      learn:
        over: [round]
        command: |
          until test ${{ round }} -lt 2 -o -e "$DIEL_RUN_DIR/go"; do read -t 0.05 <> <(:) || true; done
          echo '{"name": "${{ round }}"}' > "$DIEL_RESULT"
        outputs: {name: {value: str}}
        after: [ask]
      soon: {command: "true", inputs: {wrong: {from: judge.wrong, at: {round: last}}}}
      then: {command: "true", after: [soon]}
      go: {command: 'touch "$DIEL_RUN_DIR/go"', after: [then]}
      late:
        over: [trial]
        module: "tools:last"
        services: [serve]
        params: {x: "${{ hp.x }}"}
        inputs: {wrong: {from: judge.wrong, at: {round: last}}}
    hyperparameters: {x: {type: float, default: 0.5, low: 0, high: 1}}
    """,
    )
    made.machine("wide", 4).run("--site", "wide")
    assert greetings(made, "late") == ["2", "2", "2"]


def test_a_model_that_a_service_refuses_answers_nobody_and_holds_nobody_up(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        RELOADING.replace("ROUNDS", "3").replace("reload: true", "reload: /refused")
        + """
      ask: {over: [round], module: "tools:ask", services: [serve]}
      learn:
        over: [round]
        command: 'echo "{\\"name\\": \\"${{ round }}\\"}" > "$DIEL_RESULT"'
        outputs: {name: {value: str}}
        after: [ask]
    """,
    )
    run = made.run()
    assert run.values("ask", "greeting") == ["nobody"] * 3
    first, second, third = (run.results("ask")[number]["key"] for number in range(3))
    assert first
    assert first != second != third  # rounds differ
    assert len(service_records(run, "refused")) == 2
    for words in (("status", "--all"), ("explain",)):
        assert "serve/0 refused newer inputs and answered with older ones" in " ".join(
            made.diel(*words).split()
        )


def test_newer_inputs_that_cannot_be_written_are_written_later_and_nobody_asks_before(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        axes: {round: {loop: {max: 1}}}
        stages:
          serve:
            module: "tools:echo"
            inputs: {greeting: {from: learn.name, at: {round: last}, initially: nobody}}
            service: {ready: {http: /health}, reload: true, shared_cores: true}
          early: {module: "tools:ask", services: [serve]}
          learn:
            over: [round]
            command: |
              mkdir "$DIEL_RUN_DIR/services/serve/0.1.inputs.json"  # what is to be written there cannot be
              echo '{"name": "newer"}' > "$DIEL_RESULT"
            outputs: {name: {value: str}}
            after: [early]
          ask: {over: [round], module: "tools:ask", services: [serve], after: [learn]}
        """,
    )
    process = made.start("run", "flow.yaml")
    wait_for(lambda: process.poll() is not None or (made.runs() and made.newest().records("trouble")))
    run = made.newest()
    (run.root / "services/serve/0.1.inputs.json").rmdir()
    made.end(process)
    assert run.values("ask", "greeting") == ["newer"]
    (trouble,) = run.records("trouble")
    assert trouble["message"] == "services/serve/0.1.inputs.json cannot be written: Is a directory"


def test_what_a_service_reads_is_made_again_for_those_that_have_yet_to_ask(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        stages:
          make: {command: 'echo 1 > m.txt', outputs: {m: m.txt}}
          serve:
            module: "tools:echo"
            inputs: {greeting: make.m}
            service: {ready: {http: /health}, shared_cores: true}
          ask: {module: "tools:ask", services: [serve]}
          hold: {command: 'test -e "$DIEL_RUN_DIR/go"', after: [ask]}
          again: {module: "tools:ask", services: [serve], after: [hold]}
        """,
    )
    run = made.run(code=1)
    (run.task_dir("make") / "m.txt").write_text("2\n")
    (run.root / "go").touch()
    made.diel("resume")
    assert run.attempts("make") == [1, 2]
    assert run.attempts("ask") == [1]
    assert run.value("again", "greeting").endswith("make/0.2/m.txt")


def test_a_service_ends_with_its_controller_and_comes_back_with_the_next(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        axes: {n: {range: 2}}
        stages:
          serve: {module: "tools:echo", service: {ready: {http: /health}, shared_cores: true}}
          ask: {module: "tools:ask", services: [serve]}
          hold: {command: 'test -e "$DIEL_RUN_DIR/go" || sleep 60', after: [ask]}
          again: {over: [n], module: "tools:ask", services: [serve], after: [hold]}
        """,
    )
    process = made.start("run", "flow.yaml")
    wait_for((tmp_path / "runs/flow-1/tasks/hold/0").exists)
    run = made.newest()
    (pid,) = run.value("ask", "pids")
    assert psutil.pid_exists(pid)
    process.kill()
    made.end(process, code=-9)
    wait_for(lambda: not psutil.pid_exists(pid))
    (run.root / "go").touch()
    made.diel("resume", "last")
    assert run.counts("again") == {"done": 2}
    assert run.values("again", "pids")[0] != [pid]
