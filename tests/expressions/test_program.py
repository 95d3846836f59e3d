"""Which words of a command a shell runs as a program, and by what."""

from __future__ import annotations

import pytest

from diel.planning.check.command import begin, evaluated, executed, printed
from diel.workflow.expressions import parse
from diel.workflow.expressions.shell import VALUE, Word, commands

P = "${{ p }}"


def runners(command: str | list[str]) -> list[str]:
    """What runs a value of this command as a program, once for each word that holds one."""
    if isinstance(command, list):
        return [
            runner for _, runner in executed([Word(VALUE.join(parse(word).literals)) for word in command])
        ]
    found: list[str] = []
    for one in commands(parse(command).literals):
        found += [runner for _, runner in (*printed(one), *executed(one.words), *evaluated(one.words))]
    return found


@pytest.mark.parametrize(
    ("command", "runner"),
    [
        (["sh", "-c", f"echo {P}"], "sh"),
        (["xargs", "-n1", "bash", "-euo", "pipefail", "-c", f'x "{P}"'], "bash"),
        (f"timeout 5 bash -ec 'echo {P}'", "bash"),
        (f"fish --command={P}", "fish"),
        (f"su -c 'x {P}' me", "su"),
        (f"timeout 9 ssh -p 22 host run {P}", "ssh"),
        (f"env -S 'bash {P}'", "env"),
        (f"parallel 'x {P}' ::: 1", "parallel"),
        (f"X=1 command eval echo {P}", "eval"),
        (f"trap 'rm {P}' EXIT", "trap"),
        (f"declare -i x={P}", "declare"),
        (f"[[ {P} -gt 1 ]]", "[["),
        (f"test -v {P}", "test"),
        (f"x[{P}]=1", "[...]"),
    ],
)
def test_a_word_that_is_run_is_told_with_what_runs_it(command: str | list[str], runner: str) -> None:
    assert runners(command) == [runner]


@pytest.mark.parametrize(
    "command",
    [
        f"echo {P} | sh",
        f"printf '%s' {P} | tee log | sudo bash -s -- a",
        f"X=1 /bin/echo a {P} 2>&1 |& bash -eu -o pipefail",
        f"cat <<< {P} | sh -",
        f"sh <<<{P}",
        f"<<< 'x {P}' bash /dev/stdin arg",
        f"bash < <(echo {P})",
        f"if source <(echo a; echo {P}); then x; fi",
        f". /dev/stdin <<< {P}",
        f"(cd x; echo {P}) |\n  sh",
        f"{{ echo a; echo {P}; }} | ssh -p 22 host",
        f"for n in 1 2; do echo {P}; done | ssh host bash",
        f"y=$(echo {P} | zsh)",
        ["env", f"-Sbash -c {P}"],
        ["env", "--split-string=nice bash -c", P],
        f"env -S 'sh -c' {P}",
    ],
)
def test_a_value_that_a_shell_reads_as_its_program_is_found(command: str | list[str]) -> None:
    assert len(runners(command)) == 1


@pytest.mark.parametrize(
    "command",
    [
        f"python train.py eval {P}; grep -c {P} file; bash {P} -c {P}; sh script -c {P}",
        f"[[ {P} == x ]]; [ {P} -eq 1 ]; ssh {P} ls; cat <<< {P}; parallel x ::: {P}",
        f'ssh host "run $(printf %q {P})"',
        f"echo {P} | sort; sh run.sh; echo {P} || sh; echo {P} & sh; (echo {P}); sh",
        f"echo {P} | bash run.sh; echo {P} | sh -c 'cat'; cat <<< {P}; sh run.sh <<< {P}; ssh host cat <<< {P}",
        f"diff <(echo {P}) file; bash run.sh <(echo {P}); source lib.sh <(echo {P}); prog {P} | sh",
        f"echo {P} | xargs -n 1 sh; printf 'run %q' {P} | ssh host bash; echo {P} | python gen.py | sh",
        f"cat > run.sh <<< {P}; echo a | sh | grep {P}; sh run.sh",
        f'x={P}; eval "$x"; echo {P} > run.sh; sh run.sh; sh -c "$(echo {P})"; sed s/x/{P}/ a.sh | sh',
        ["env", "-S", "prog -c", P],
        ["echo", P, "|", "sh"],
        ["timeout", "9", "prog", "-c", P],
        ["sh", "-c", 'echo "$@"', "sh", P],
        ["bash", P, "-c", P],
        ["eval", P],
    ],
)
def test_a_value_that_is_a_word_or_part_of_one_is_let_through(command: str | list[str]) -> None:
    assert runners(command) == []


def test_a_program_stands_behind_assignments_and_the_shells_own_words() -> None:
    def first(text: str) -> str:
        words = [Word(word) for word in text.split()]
        return words[begin(words)].text

    assert first("if ! X=1 Y[2]+=3 time prog a=b") == "prog"
    assert first("X=1") == "X=1"
