"""flux batch, jobs, cancel and getattr that answer as flux-core 0.88.0 was seen to, without an instance.

Jobs are run by the process of `pbs_double` that stands in the place of a node's daemon; an instance of a job's
own there is none.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import pbs_double as jobs  # a program of its own, outside of any package

say: Callable[[str, int], int] = jobs.say
COMMANDS = ("flux",)
VERSION = "0.88.0"
LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def main(state: Path, name: str, words: list[str]) -> int:
    command, *words = words
    if (state / "down").exists():
        return say(
            f"flux-{command}: ERROR: Unable to connect to Flux: broker socket /run/flux/local was not found",
            1,
        )
    return {"batch": batch, "jobs": list_jobs, "cancel": cancel, "getattr": getattr_}[command](state, words)


def getattr_(state: Path, words: list[str]) -> int:
    print(VERSION)
    return 0


def batch(state: Path, words: list[str]) -> int:
    script = Path(words[-1]).read_text(encoding="utf-8", errors="surrogateescape")
    lines = [line.removeprefix("#flux: ") for line in script.splitlines() if line.startswith("#flux: ")]
    asked: dict[str, str] = {}
    for word in [*words[:-1], *(word for line in lines for word in shlex.split(line))]:
        key, _, value = word.partition("=")
        asked.setdefault(key, value)
    if "--queue" in asked:  # an instance without queues takes none
        return say(f"flux-batch: ERROR: '{asked['--queue']}' is not a valid queue", 1)
    after = asked.get("--dependency", "").removeprefix("afterany:")
    if after and number_of(state, after) is None:
        return say(f"flux-batch: ERROR: dependency: afterany: id {after}: job not found", 1)
    number = jobs.next_number(state)
    record = {
        "number": number,
        "name": asked["--job-name"],
        "script": script,
        "folder": str(Path.cwd()),
        "out": asked["--output"],
        "err": asked["--error"],
        "walltime": float(asked["--time-limit"].removesuffix("s")),
        "nodes": int(asked["--nodes"]),
        "cores": int(asked["--cores-per-slot"]),
        "after": str(number_of(state, after)) if after else "",
        "held": asked.get("--urgency") == "0",
        "user": jobs.user(),
        "variables": {"FLUX_ENCLOSING_ID": f58(number), "FLUX_URI": "local:///tmp/none"},
    }
    jobs.write(state / f"{number}.job", record)
    if jobs.impossible(record):
        jobs.write(state / f"{number}.ended", {"never": True})
    else:
        jobs.begin(state, number)
    print(f58(number))
    return 0


def f58(number: int) -> str:
    return f"f2{LETTERS[number // 58]}{LETTERS[number % 58]}"


def number_of(state: Path, word: str) -> int | None:
    """The number of a job that an id stands for; None for an unknown one."""
    known = {f58(int(path.stem)): int(path.stem) for path in state.glob("*.job")}
    return known.get(word)


def list_jobs(state: Path, words: list[str]) -> int:
    form = next(word.removeprefix("--format=") for word in words if word.startswith("--format="))
    ids = [word for word in words if not word.startswith("--")]
    told = 0
    for word in ids or [f58(int(path.stem)) for path in state.glob("*.job")]:
        number = number_of(state, word)
        job = attributes(state, number) if number is not None else None
        if job is None:
            say(f"JobID {word} unknown", 1)
        elif ids or job["state"] != "INACTIVE":
            print("|".join(str(job.get(field.strip("{}"), "")) for field in form.split("|")))
            told += 1
    return 1 if ids and not told else 0


def attributes(state: Path, number: int) -> dict[str, Any]:
    job = jobs.read(state / f"{number}.job")
    started, ended = (jobs.read(state / f"{number}.{kind}") for kind in ("started", "ended"))
    found: dict[str, Any] = {"id.f58plain": f58(number), "name": job["name"], "state": "SCHED"}
    if job["after"] and not started:
        found |= {"state": "DEPEND", "contextual_info": f"depends:after-finish={job['after']}"}
    if job["held"]:
        found["contextual_info"] = "held"
    if started:
        nodes = ",".join(f"node{place}" for place in range(job["nodes"]))
        found |= {"state": "RUN", "nodelist": nodes, "contextual_info": nodes}
    if not ended:
        return found
    found["state"], code = "INACTIVE", ended.get("code", -128)
    if "never" in ended:
        why = f"unsatisfiable request: need {job['nodes']} node(s), only {jobs.NODES} eligible"
        return found | {"result": "FAILED", "returncode": 1, "exception.type": "alloc", "exception.note": why}
    if (state / f"{number}.deleted").exists():
        code = code if code < 256 else code - 256 + 128
        return found | {"result": "CANCELED", "returncode": code, "exception.type": "cancel"}
    if code == -29:
        note = {"exception.type": "timeout", "exception.note": "resource allocation expired"}
        return found | {"result": "TIMEOUT", "returncode": 142, **note}
    return found | {"result": "FAILED" if code else "COMPLETED", "returncode": code}


def cancel(state: Path, words: list[str]) -> int:
    code = 0
    for word in words:
        number = number_of(state, word)
        if number is None:
            code = say(f"flux-cancel: ERROR: {word}: unknown job id", 1)
        elif attributes(state, number)["state"] == "INACTIVE":
            code = say(f"flux-cancel: ERROR: {word}: job is inactive", 1)
        else:
            jobs.delete(state, number, runs=attributes(state, number)["state"] == "RUN")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
