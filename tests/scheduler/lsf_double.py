"""bsub, bjobs, bkill and lsid that answer as the manual of LSF 10.1 says, without a cluster.

Jobs are run by the process of `pbs_double` that stands in the place of a node's daemon.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import pbs_double as jobs  # a program of its own, outside of any package

say: Callable[[str, int], int] = jobs.say
COMMANDS = ("bsub", "bjobs", "bkill", "lsid")
QUEUE = "normal"
DOWN = "Failed in an LSF library call: Master LIM is down. Job not submitted."


def main(state: Path, name: str, words: list[str]) -> int:
    if (state / "down").exists():
        return say(DOWN, 255)
    return {"bsub": bsub, "bjobs": bjobs, "bkill": bkill, "lsid": lsid}[name](state, words)


def lsid(state: Path, words: list[str]) -> int:
    print(
        "IBM Spectrum LSF Standard 10.1.0.13, Apr 15 2022\n\nMy cluster name is double\nMy master name is head"
    )
    return 0


def bsub(state: Path, words: list[str]) -> int:
    script = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    asked = options([*words, *(word for line in directives(script) for word in shlex.split(line))])
    if asked.get("-q", QUEUE) != QUEUE:
        return say(f"{asked['-q']}: No such queue. Job not submitted.", 255)
    after = re.fullmatch(r"ended\((\d+)\)", asked.get("-w", ""))
    if asked.get("-w") and (after is None or not (state / f"{after[1]}.job").exists()):
        return say(f"{asked['-w']}: No matching job found. Job not submitted.", 255)
    cores = int(re.search(r"ptile=(\d+)", asked["-R"])[1])  # type: ignore[index]
    number = jobs.next_number(state)
    record = {
        "number": number,
        "name": asked["-J"],
        "script": script,
        "folder": str(Path.cwd()),
        "out": str(state / f"{number}.report"),
        "err": str(state / f"{number}.report"),
        "walltime": 60 * int(asked["-W"]) if int(asked["-W"]) > 1 else 1.0,
        "nodes": int(asked["-n"]) // cores,
        "cores": cores,
        "after": after[1] if after else "",
        "held": "-H" in asked,
        "user": jobs.user(),
        "variables": {"LSB_JOBID": str(number), "LSB_QUEUE": QUEUE},
    }
    jobs.write(state / f"{number}.job", record)
    jobs.begin(state, number)
    print(f"Job <{number}> is submitted to {'' if '-q' in asked else 'default '}queue <{QUEUE}>.")
    return 0


def directives(script: str) -> list[str]:
    return [line.removeprefix("#BSUB ") for line in script.splitlines() if line.startswith("#BSUB ")]


def options(words: list[str]) -> dict[str, str]:
    """Options by name; those that came first count, as the command line's do, but for `-R`, which add up."""
    found: dict[str, str] = {}
    line = iter(words)
    for word in line:
        value = "" if word in ("-H", "-rn") else next(line)
        found[word] = f"{found[word]} {value}" if word == "-R" and word in found else found.get(word, value)
    return found


def bjobs(state: Path, words: list[str]) -> int:
    """As `-noheader -o \"… delimiter='|'\"` prints: a dash for what there is not."""
    fields = words[words.index("-o") + 1].removesuffix(" delimiter='|'").split()
    ids = [word for word in words if word.isdigit()]
    code, told = 0, 0
    for number in ids or sorted((path.stem for path in state.glob("*.job")), key=int):
        job = attributes(state, number)
        if job is None:
            code = say(f"Job <{number}> is not found", 255)
        elif ids or job["stat"] not in ("DONE", "EXIT"):
            print("|".join(str(job.get(field, "-")) for field in fields))
            told += 1
    return code if told or ids else say("No unfinished job found", 255)


def attributes(state: Path, number: str) -> dict[str, Any] | None:
    job = jobs.read(state / f"{number}.job")
    if not job:
        return None
    started, ended = (jobs.read(state / f"{number}.{kind}") for kind in ("started", "ended"))
    found: dict[str, Any] = {"jobid": number, "job_name": job["name"], "stat": "PEND"}
    if not started and not ended:
        waits = (
            "Job dependency condition not satisfied;"
            if job["after"]
            else "New job is waiting for scheduling;"
        )
        never = "Job's requirements for resources never satisfied: too many hosts;"
        found |= (
            {"stat": "PSUSP"} if job["held"] else {"pend_reason": never if jobs.impossible(job) else waits}
        )
    if started:
        hosts = (f"{job['cores']}*node{place}" for place in range(job["nodes"]))
        found |= {"stat": "RUN", "exec_host": ":".join(hosts)}
    if ended:
        found["stat"] = "DONE" if ended.get("code") == 0 else "EXIT"
    if ended and found["stat"] == "EXIT":
        code = ended.get("code", 256 + 15)
        killed = {-29: "TERM_RUNLIMIT: job killed after reaching LSF run time limit"}
        owner = "TERM_OWNER: job killed by owner" if (state / f"{number}.deleted").exists() else "-"
        found |= {"exit_code": 140 if code == -29 else code if code < 256 else code - 128}
        found |= {"exit_reason": killed.get(code, owner)}
    return found


def bkill(state: Path, words: list[str]) -> int:
    code = 0
    for number in words:
        job = attributes(state, number)
        if job is None:
            code = say(f"Job <{number}>: No matching job found", 255)
        elif job["stat"] in ("DONE", "EXIT"):
            code = say(f"Job <{number}>: Job has already finished", 255)
        else:
            jobs.delete(state, number, runs=job["stat"] == "RUN")
            print(f"Job <{number}> is being terminated")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
