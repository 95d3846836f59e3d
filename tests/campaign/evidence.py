"""What a run left behind, and what is wrong with it: lost, twice, another result, files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.campaign.flows import Flow
from tests.throwaway import Project, Record, Run

_ATTEMPT = re.compile(r"(tasks/\w+/\d+)\.\d+")
_NAMES = (
    (_ATTEMPT, r"\1"),
    (re.compile(r"(worker|controller)-\d+(-\S+?)?(?=[./]|$)"), r"\1"),
    (re.compile(r"(logs/parsl)/.*"), r"\1"),
    (re.compile(r"(broker|items)-[\w-]+"), r"\1"),
    (re.compile(r"(streams/channels|streams/space)/.*"), r"\1"),
    (re.compile(r"(logs/blocks)/\d+-\d+"), r"\1/block"),
    (re.compile(r"(runs/[^/]+/sources)/[0-9a-f]{32}"), r"\1/file"),  # they name the folder that they lie in
)
"""What differs between a run that was disturbed and one that was not: numbers of attempts, controllers, workers."""


@dataclass(frozen=True)
class Outcome:
    """What a run came to, without the attempts that it took."""

    results: dict[str, str]
    """What `diel results --json` prints of each stage."""
    artifacts: dict[str, bytes]
    """The content of each artifact, by its path without the attempt."""
    tasks: frozenset[tuple[str, int]]
    """Every task that has a result."""
    files: frozenset[str]
    """Every path of the project, numbers left out."""


def outcome(project: Project, flow: Flow) -> Outcome:
    """The outcome of a run that has succeeded."""
    run, home = project.newest(), str(project.folder)
    results, artifacts = {}, {}
    for stage in flow.stages:
        printed = project.diel("results", run.id, stage, "--json")
        results[stage] = _ATTEMPT.sub(r"\1", printed.replace(home, ""))
    done = run.records("done")
    for record in done:
        for name, artifact in record.get("artifacts", {}).items():
            path = run.root / artifact["path"]
            artifacts[f"{record['stage']}/{record['index']} {name}"] = path.read_bytes()
    tasks = frozenset((record["stage"], int(record["index"])) for record in done)
    return Outcome(results, artifacts, tasks, frozenset(_files(project, done)))


def _files(project: Project, done: Sequence[Record]) -> Iterator[str]:
    """Paths below the project. What attempts that were killed left in their own directories is theirs."""
    committed = {(record["stage"], str(record["index"]), str(record["attempt"])) for record in done}
    for path in project.folder.rglob("*"):
        words = path.relative_to(project.folder).parts
        if "tasks" in words[:3] and len(words) > 4:
            stage, (index, _, attempt) = words[3], words[4].partition(".")
            if (stage, index, attempt or "1") not in committed:
                continue
        if words[0] in ("home", "tmp", "marks", "locks", "parts", "said"):
            continue
        if "fences" in words[:3]:  # they hold back what may still live on a lost node
            continue
        if "searchers" in words[:3]:  # a shortcut that a search takes where it draws slowly: the load decides
            continue
        name = "/".join(words)
        for pattern, short in _NAMES:
            name = pattern.sub(short, name)
        yield name


def breaches(project: Project, flow: Flow, expected: Outcome) -> list[str]:
    """Everything that is wrong with a run that ended, in words."""
    run = project.newest()
    found = [*_doubled(project, run, flow)]
    made = outcome(project, flow)
    for task in sorted(expected.tasks - made.tasks):
        found.append(f"lost: {task} has no result")
    for stage, printed in expected.results.items():
        if made.results[stage] != printed:
            found.append(f"another result of {stage}: {_difference(made.results[stage], printed)}")
    if made.artifacts != expected.artifacts:
        differing = {
            k
            for k in made.artifacts | expected.artifacts
            if made.artifacts.get(k) != expected.artifacts.get(k)
        }
        found.append(f"another content: {sorted(differing)[:5]}")
    for name in sorted(made.files - expected.files):
        found.append(f"left behind: {name}")
    for place in ("home", "tmp"):
        for path in sorted((project.folder / place).rglob("*")):
            found.append(f"left behind: {path.relative_to(project.folder)}")
    return found


def _doubled(project: Project, run: Run, flow: Flow) -> Iterator[str]:
    done = run.records("done")
    counts = Counter((record["stage"], record["index"]) for record in done)
    for (stage, index), times in counts.items():
        if times > 1:
            yield f"twice: {stage}/{index} was committed {times} times"
    committed = {f"{record['stage']}/{record['index']}": float(record["time"]) for record in done}
    attempts: Counter[tuple[str, str]] = Counter()
    for line in (project.folder / "marks").read_text(encoding="utf-8").splitlines():
        word, task, attempt, began = line.split()
        if word == "beside":
            yield f"twice: attempt {attempt} of {task} ran beside another one"
            continue
        attempts[(task, attempt)] += 1
        if task in committed and float(began) > committed[task]:
            yield f"twice: {task} began again as attempt {attempt} after its result was committed"
    for (task, attempt), times in attempts.items():
        if times > 1:
            yield f"twice: attempt {attempt} of {task} was executed {times} times"
    for record in run.records("fail"):
        if record["class"] != "node" and f"{record['stage']}/{record['index']}" not in flow.fails:
            yield f"blamed: {record['stage']}/{record['index']}: {record['class']}: {record['message']}"


def _difference(found: str, expected: str) -> str:
    """Where two texts differ first, with a little of both."""
    at = next((n for n, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), len(expected))
    begin = max(0, at - 60)
    return f"…{found[begin : at + 60]}… and not …{expected[begin : at + 60]}…"


def said_by(project: Project) -> str:
    """What its controllers printed, the last lines."""
    path = project.folder / "said"
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return "\n".join(text.splitlines()[-6:])
