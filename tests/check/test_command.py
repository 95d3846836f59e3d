"""A value in a word that a shell runs as a program is refused, with the command to write instead."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from diel.base.errors import SpecError
from diel.planning.check.command import remarks
from tests.check.asking import checked, problems

P = "${{ p }}"


def asked(folder: Path, command: object) -> list[str]:
    """What is said of a stage with this command: each hint."""
    text = f"axes: {{p: {{values: [1]}}}}\nstages:\n  s: {{over: [p], command: {json.dumps(command)}}}\n"
    try:
        checked(folder, text)
    except SpecError as error:
        return [problem.hint for problem in error.problems if "execute" in problem.message]
    return []


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (["sh", "-c", f"echo {P}"], ["sh", "-c", 'echo "$@"', "sh", P]),
        (["env", "bash", "-c", f"echo {P}"], ["env", "bash", "-c", 'echo "$@"', "bash", P]),
        (["/bin/sh", "-lc", f"a '{P}' {P}b", "x", "y"], ["/bin/sh", "-lc", 'a "$2" "${3}"b', "x", "y", P, P]),
        (["/usr/bin/env", "-S", "bash -c", P], ["/usr/bin/env", "-S", "bash -c", '"$@"', "bash", P]),
        (["busybox", "sh", "-ec", P], ["busybox", "sh", "-ec", '"$@"', "sh", P]),
        (["xargs", "-n1", "bash", "-euo", "pipefail", "-c", f'x "{P}"'], ["xargs", "-n1", "bash", "-euo", "pipefail", "-c", 'x "$@"', "bash", P]),
    ],
)  # fmt: skip
def test_a_list_is_shown_with_the_value_as_a_word_of_its_own(
    folder: Path, command: list[str], instead: list[str]
) -> None:
    (hint,) = asked(folder, command)
    assert yaml.safe_load(hint.removeprefix("write ")) == instead
    assert asked(folder, instead) == []


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (f'sh -c "{P}"', f"sh -c '\"$@\"' sh {P}"),
        (f"if a; then X=1 timeout 5 bash -ec 'echo {P}'; fi", f"timeout 5 bash -ec 'echo \"$@\"' bash {P}"),
        (f'a | (cd b && dash -c "x {P} $(ls)")', None),
        (f'y=$(zsh -c "x {P}")', f"zsh -c 'x \"$@\"' zsh {P}"),
        (f"sh -c 'x $HOME {P}' name arg", f"sh -c 'x $HOME \"$2\"' name arg {P}"),
        (f"eval {P}", P),
        (f'eval "echo {P}"', f"echo {P}"),
        (f"eval echo {P}", None),
        (f"X=1 command eval echo {P}", None),
        (f'trap "rm {P}" EXIT', None),
        (f'ssh -p 22 host "run {P}"', None),
        (f"timeout 9 ssh host run {P}", None),
        (f'su -c "x {P}" me', None),
        (f"env -S 'bash {P}'", None),
        (f"parallel 'x {P}' ::: 1", None),
        (f"[[ {P} -gt 1 ]]", None),
        (f"let x={P}", None),
        (f"x[{P}]=1", None),
        (f"declare -i x={P}", None),
        (f"fish --command={P}", None),
    ],
)  # fmt: skip
def test_a_text_is_refused_where_a_shell_would_run_the_value(
    folder: Path, command: str, instead: str | None
) -> None:
    (hint,) = asked(folder, command)
    if instead is not None:
        assert hint == f"write {instead}"
        assert asked(folder, instead) == []


@pytest.mark.parametrize(
    "command",
    [
        f"echo {P} | sh",
        f"{{ echo a; echo {P}; }} | ssh -p 22 host",
        ["env", "--split-string=nice bash -c", P],
    ],
)
def test_a_value_that_a_shell_reads_as_its_program_is_refused(folder: Path, command: object) -> None:
    (hint,) = asked(folder, command)
    assert "$@" in hint or "%q" in hint or "without -S" in hint


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (f'find . -exec sh -c "x {P}" sh {{}} \\;', 'write "$@" there, and pass the value'),
        (["find", ".", "-exec", "sh", "-c", f"x {P}", ";"], 'write "$@" there, and pass the value'),
        (f"test -v {P}", "name the variable itself after -v"),
    ],
)
def test_no_command_is_shown_that_would_do_something_else(folder: Path, command: object, hint: str) -> None:
    (said,) = asked(folder, command)
    assert said.startswith(hint)


@pytest.mark.parametrize(
    "command",
    [
        f"python train.py eval {P}; grep -c {P} file; bash {P} -c {P}; sh script -c {P}",
        ["sh", "-c", 'echo "$@"', "sh", P],
    ],
)
def test_a_value_that_is_a_word_or_part_of_one_is_let_through(folder: Path, command: object) -> None:
    assert asked(folder, command) == []


def test_the_place_is_that_of_the_expression(folder: Path) -> None:
    text = "axes: {p: {range: 2}}\nstages:\n  s:\n    over: [p]\n    command: [sh, -c, 'echo ${{ p }}']\n"
    (problem,) = problems(folder, text)
    assert (problem.line, problem.key) == (7, "stages.s.command.2")


def test_what_is_shown_does_what_was_meant(folder: Path) -> None:
    hostile = "$(touch pwned) '\"; touch pwned"
    (hint,) = asked(folder, ["sh", "-c", f'printf "<%s> %s" "{P}" \'{P}\''])
    words = [hostile if word == P else word for word in yaml.safe_load(hint.removeprefix("write "))]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout == f"<{hostile}> {hostile}"
    assert not (folder / "pwned").exists()


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        ('command: "run $(p) > a.out"', ["'$(p)' is taken as it is", "write ${{ p }}"]),
        ('command: "$(LAUNCHER) run"', ["'$(LAUNCHER)' is taken as it is", "write ${{ launcher }}"]),
        ('command: [run], outputs: {o: "a_{p}.out"}', ["'{p}' is taken as it is", "write ${{ p }}"]),
        ('command: "run > result.dat", outputs: {o: reslt.dat}', ["it names 'result.dat'"]),
        ('command: "run $(date) ${p} > a_$p.out", outputs: {o: "a_${{ p }}.out"}', []),
    ],
)
def test_what_is_right_and_hardly_meant_is_remarked(folder: Path, rest: str, told: list[str]) -> None:
    known = checked(folder, f"axes: {{p: {{values: [1]}}}}\nstages:\n  s: {{over: [p], {rest}}}\n")
    said = "\n".join(map(str, remarks(known.document)))
    assert [one for one in told if one not in said] == []
    assert bool(said) == bool(told)
