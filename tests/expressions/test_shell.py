"""Values in a shell command: where they may stand, and that they arrive byte for byte."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from diel.workflow.expressions import ExpressionError, parse
from diel.workflow.expressions.shell import PIPE, VALUE, Command, Quotes, commands
from tests.expressions.evaluating import SCOPE

HOSTILE = [
    "a b",
    "it's",
    'say "x"',
    "; rm -rf .",
    "line\nbreak",
    "$(touch pwned)",
    "`touch pwned`",
    "$HOME",
    "-rf",
    "é∂",
    "",
    "\\",
    "*",
    "# no",
    "${x}",
    "&& false",
    "!!",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "\t",
]


@pytest.mark.parametrize(
    "command",
    [
        "printf '%s' ${{ x }}",
        'printf "%s" "${{ x }}"',
        "printf '%s' '${{ x }}'",
        "true && printf %s \\\n  ${{ x }}",
        "y=$(printf '%s.' ${{ x }}); printf %s \"${y%.}\"",
        "printf %s \"$(printf '%s.' \"${{ x }}\" | sed '$ s/[.]$//')\"; printf ''",
        "# it's a comment\nprintf '%s' ${{ x }}",
        "echo it\\'s >/dev/null; printf %s ${{ x }}",
    ],
)
def test_hostile_values_reach_a_program_byte_for_byte(command: str, tmp_path: Path) -> None:
    for text in HOSTILE:
        script = parse(command).shell({"x": text})
        done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=True)
        expected = text.rstrip("\n") if "$(" in command else text
        assert done.stdout == expected.encode(), script
        assert list(tmp_path.iterdir()) == []


def test_a_list_in_a_shell_command_gives_several_quoted_words() -> None:
    assert parse("cat ${{ inputs.runs }} >x").shell(SCOPE) == "cat a.csv 'b c.csv' >x"
    assert parse('echo "${{ inputs.runs }}"').shell(SCOPE) == 'echo ""\'a.csv b c.csv\'""'


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("true # ${{ x }}", "comment"),
        ("true \\\n# ${{ x }}", "comment"),
        ("echo `echo ${{ x }}`", "backticks"),
        ("cat <<EOF\n${{ x }}\nEOF", "here-document"),
        ("echo $((1 + ${{ x }}))", "arithmetic"),
        ("(( ${{ x }} ))", "arithmetic"),
        ("echo $[ ${{ x }} ]", "arithmetic"),
        ("echo ${y:-${{ x }}}", "${...}"),
        ("echo \\${{ x }}", "backslash"),
        ("echo $'a\\'b' ${{ x }}", "$'...'"),
        ('echo "$(case a in a) echo ;; esac; echo ${{ x }})"', "case"),
    ],
)
def test_a_value_is_refused_where_no_quoting_is_safe(command: str, words: str) -> None:
    template = parse(command)
    with pytest.raises(ExpressionError) as caught:
        template.check_shell()
    assert words in str(caught.value)
    assert caught.value.offset == command.index("x }}")
    with pytest.raises(ExpressionError):
        template.shell({"x": "1"})


def test_comments_and_arithmetic_beside_a_value_do_no_harm() -> None:
    script = "echo $((1 + 2)) # don't\necho \"`echo 1`\" a#b ${{ x }} <in # it's"
    assert parse(script).shell({"x": "a b"}) == script.replace("${{ x }}", "'a b'")


def test_words_are_quoted_for_the_quotes_around_them() -> None:
    assert Quotes.BARE.quote(["a b", "c"]) == "'a b' c"
    assert Quotes.DOUBLE.quote(["a", "$b"]) == "\"'a $b'\""
    assert Quotes.SINGLE.quote(["it's"]) == "''it'\"'\"'s''"


def texts(found: list[Command]) -> list[list[str]]:
    return [[word.text for word in command.words] for command in found]


def split(text: str) -> list[Command]:
    """The commands of a text, with `@` for each value."""
    return commands(text.split("@"))


def test_a_text_is_split_into_commands_and_words_as_a_shell_does() -> None:
    found = split("X=1 a 'b c' \"d$E\"\\ f; if g; then h @i@ # no\nfi && (j | k)")
    assert texts(found) == [
        ["X=1", "a", "b c", "d$E f"],
        ["if", "g"],
        ["then", "h", f"{VALUE}i{VALUE}"],
        ["fi"],
        ["j"],
        ["k"],
    ]
    assert found[2].words[2].values == [0, 1]
    assert [word.expands for word in found[0].words] == [False, False, False, True]
    assert texts(found[5].reads) == [["j"]]


def test_a_word_tells_where_it_stands_in_the_text() -> None:
    text = "echo 'a b' x@y"
    (command,) = split(text)
    assert [text[word.start : word.end] for word in command.words] == ["echo", "'a b'", "x@y"]


def test_what_a_command_reads_is_known_through_here_strings_and_substitutions() -> None:
    assert texts(split("cat <<< @")[-1].reads) == [["<<<", VALUE]]
    inner, outer = split("cat <(echo @)")
    assert texts([inner, outer]) == [["echo", VALUE], ["cat", PIPE]]
    assert outer.reads == [inner]
