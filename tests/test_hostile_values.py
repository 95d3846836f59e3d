"""Values and file names that a shell, a parser or a file system could trip over arrive byte for byte."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
import yaml

from tests.throwaway import Project, Run

VALUES = [
    "two words",
    "  spaces around  ",
    "single ' quote",
    'double " quote',
    "'; rm -rf /tmp/never; echo '",
    '"; touch pwned; echo "',
    "; touch pwned",
    "& touch pwned &",
    "| touch pwned",
    "> pwned",
    "line\nbreak",
    "trailing line break\n",
    "tab\there",
    "carriage\rreturn",
    "$(touch pwned)",
    "`touch pwned`",
    "$HOME ${HOME} $((1+1)) $$",
    "*",
    "~",
    "[a-z]? {a,b}",
    "!history",
    "# comment",
    "back\\slash \\n \\' \\",
    "%s %d %",
    "=value",
    "a=b",
    "-n",
    "--help",
    "-",
    "--",
    "",
    " ",
    "\n",
    "{}",
    "{0}",
    "}}",
    "${{ hp.secret }}",
    "$${{ x }}",
    "{{ jinja }}",
    "é ü ß",
    "日本語",
    "🧲⚛️",
    "e\u0301",
    "\u202eright to left",
    "\x01\x1b[31m\x7f",
    "\u2028line separator",
    "null",
    "true",
    "1e3",
    "[1, 2]",
    '{"a": 1}',
    "../../../etc/passwd",
    "x" * 40_000,
]
READS = """
    hyperparameters: {secret: {type: str, default: "not this"}}
    axes:
      v: {values: VALUES}
      row: {file: values.csv}
    stages:
      listed: {over: [v], command: ["${{ files.tell }}", listed, "${{ v }}", "<${{ v }}>"], files: {tell: "tell it.py"}}
      shell: {over: [v], command: COMMAND, files: {tell: "tell it.py"}}
      quoted: {over: [v], command: QUOTED, files: {tell: "tell it.py"}}
      assigned: {over: [v], command: ASSIGNED, files: {tell: "tell it.py"}}
      env: {over: [v], command: ["${{ files.tell }}", env], files: {tell: "tell it.py"}, env: {HOSTILE: "${{ v }}", MIXED: "<${{ v }}>"}}
      written: {over: [v], command: ["${{ files.tell }}", params], files: {tell: "tell it.py"}, params: {mine: "${{ v }}", nested: {"k": ["${{ v }}"]}}}
      module: {over: [v], module: "tools:echo", params: {value: "${{ v }}", mixed: "<${{ v }}>"}}
      passed: {over: [v], command: ["${{ files.tell }}", inputs], files: {tell: "tell it.py"}, inputs: {text: module.value}}
      every: {command: ["${{ files.tell }}", listed, "${{ module.value }}"], files: {tell: "tell it.py"}}
      every_shell: {command: EVERY, files: {tell: "tell it.py"}}
      every_module: {module: "tools:echo", inputs: {value: module.value}, params: {mixed: ""}}
      from_file: {over: [row], module: "tools:echo", params: {value: "${{ text }}", mixed: "${{ number }}"}}
      again: {over: [fed], module: "tools:echo", params: {value: "${{ fed }}", mixed: ""}}
"""
TELL = """#!/usr/bin/env python3
import json, os, sys
kind = sys.argv[1]
if kind == "env":
    told = [os.environ["HOSTILE"], os.environ["MIXED"]]
elif kind == "params":
    told = json.load(open(os.environ["DIEL_PARAMS"]))
elif kind == "inputs":
    told = json.load(open(os.environ["DIEL_INPUTS"]))["text"]
else:
    told = sys.argv[2:]
json.dump({"told": told}, open(os.environ["DIEL_RESULT"], "w"))
"""
TOOLS = """
    from typing import Any

    @diel.module(kind="analysis")
    def echo(value: Any, mixed: Any) -> dict:
        return {"value": value, "mixed": mixed}

    @diel.module(kind="analysis")
    def surrogate() -> dict:
        return {"value": "\\udcff"}
    @diel.module(kind="analysis")
    def half() -> dict:
        return {"value": "\\ud800"}
"""


def written(value: object) -> str:
    """A value as YAML on one line."""
    return yaml.safe_dump(value, default_style='"', default_flow_style=True, width=10**9).strip()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run, over all values, in a directory whose own name is hostile."""
    folder = tmp_path_factory.mktemp("hostile") / "it's a $(touch pwned) dir; ünï"
    project = Project(folder)
    short = [value for value in VALUES if value != ""]
    commands = {
        "COMMAND": "${{ files.tell }} shell ${{ v }} pre${{ v }}post",
        "QUOTED": '"${{ files.tell }}" quoted \'${{ v }}\' "a ${{ v }} b" "$(printf \'%s.\' "${{ v }}")"',
        "ASSIGNED": 'x=${{ v }}; export y="${{ v }}"; exec ${{ files.tell }} assigned "$x" "$y" # it is ${HOME}',
        "EVERY": "exec ${{ files.tell }} every ${{ module.value }}",
    }
    text = READS.replace("VALUES", written([value.replace("${{", "$${{") for value in VALUES]))
    text = text.replace("row: {file", "fed: {from: every_module.value}\n      row: {file")
    for name, command in commands.items():
        text = text.replace(name, written(command))
    project.workflow(text).module("tools", TOOLS)
    tell = folder / "tell it.py"
    tell.write_text(TELL)
    tell.chmod(0o755)
    with open(folder / "values.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, quoting=csv.QUOTE_ALL)
        table.writerow(["text", "number"])
        table.writerows([f"text {value}", 7] for value in short)
    run = project.run()
    assert not list(folder.parent.rglob("pwned"))
    return run


def test_words_of_a_list_arrive(hostile: Run) -> None:
    assert hostile.values("listed", "told") == [[value, f"<{value}>"] for value in VALUES]


def test_values_outside_quotes_arrive(hostile: Run) -> None:
    assert hostile.values("shell", "told") == [[value, f"pre{value}post"] for value in VALUES]


def test_values_inside_quotes_arrive(hostile: Run) -> None:
    assert hostile.values("quoted", "told") == [[v, f"a {v} b", f"{v}."] for v in VALUES]


def test_values_assigned_to_variables_arrive(hostile: Run) -> None:
    assert hostile.values("assigned", "told") == [[value, value] for value in VALUES]


def test_environment_variables_arrive(hostile: Run) -> None:
    assert hostile.values("env", "told") == [[value, f"<{value}>"] for value in VALUES]


def test_parameter_files_hold_the_values(hostile: Run) -> None:
    expected = [{"v": value, "mine": value, "nested": {"k": [value]}} for value in VALUES]
    assert hostile.values("written", "told") == expected


def test_modules_get_and_return_the_values(hostile: Run) -> None:
    assert hostile.values("module", "value") == VALUES
    assert hostile.values("module", "mixed") == [f"<{value}>" for value in VALUES]
    assert hostile.values("passed", "told") == VALUES


def test_gathered_values_arrive_as_words(hostile: Run) -> None:
    assert hostile.value("every", "told") == VALUES
    assert hostile.value("every_shell", "told") == VALUES
    assert hostile.value("every_module", "value") == VALUES


def test_a_derived_axis_passes_the_values_on(hostile: Run) -> None:
    assert hostile.values("again", "value") == VALUES


def test_a_table_passes_its_cells_on(hostile: Run) -> None:
    expected = [f"text {value}" for value in VALUES if value]
    assert hostile.values("from_file", "value") == expected
    assert hostile.values("from_file", "mixed") == [7] * len(expected)


# --- file names -------------------------------------------------------------------------------

NAMES = [
    "two words",
    "-rf",
    "--help",
    'it\'s "quoted"',
    "new\nline",
    "$(touch pwned)",
    "`touch pwned`; touch pwned",
    "*",
    "#hash",
    "~home",
    "é日🧲",
    "a=b&c|d",
    "back\\slash",
    "%s",
    ".hidden",
    "x" * 200,
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Run:
    project = Project(tmp_path_factory.mktemp("files"))
    names = [name for name in NAMES if not name.startswith("~")]
    given = {f"f{number}": f"./{name}" for number, name in enumerate(names)}
    made = {f"o{number}": f"./{name}" for number, name in enumerate(names)}
    shell = "\n".join(
        f"cat < ${{{{ files.{f} }}}} > ${{{{ outputs.{o} }}}}" for f, o in zip(given, made, strict=True)
    )
    words = [f"${{{{ outputs.{name} }}}}" for name in made]
    read = ["cat", *(f"${{{{ copy.{name} }}}}" for name in made)]
    text = f"""
    axes:
      n: {{values: {written(names)}}}
    stages:
      copy: {{command: {written(shell)}, files: {written(given)}, outputs: {written(made)}}}
      touch: {{command: {written(["touch", "--", *words])}, outputs: {written(made)}}}
      read: {{command: {written(read)}}}
      one: {{over: [n], command: 'printf "%s" ${{{{ n }}}} > ${{{{ outputs.made }}}}', outputs: {{made: "./${{{{ n }}}}"}}}}
      gathered: {{command: "cat ${{{{ one.made }}}}"}}
      in_words: {{command: [cat, "${{{{ one.made }}}}"]}}
      in_file: {{command: 'cat "$DIEL_INPUTS"', inputs: {{all: one.made}}}}
      in_python: {{module: "tools:read", inputs: {{all: one.made}}}}
      undecodable: {{module: "tools:undecodable"}}
      reads_undecodable: {{module: "tools:read", inputs: {{all: undecodable.all}}}}
      cat_undecodable: {{command: "cat ${{{{ undecodable.made }}}}"}}
      list_undecodable: {{command: [cat, "${{{{ undecodable.made }}}}"]}}
      json_undecodable: {{command: 'cat "$DIEL_INPUTS"', inputs: {{one: undecodable.made}}}}
      env_undecodable: {{command: 'cat "$PLACE"', env: {{PLACE: "${{{{ undecodable.made }}}}"}}}}
"""
    project.workflow(text)
    project.module(
        "tools",
        r"""
    import os
    from pathlib import Path

    @diel.module(kind="analysis")
    def read(all: list[Path]) -> dict:
        return {"texts": [path.read_text() for path in all]}

    @diel.module(kind="analysis")
    def undecodable():
        Path(os.fsdecode(b"bad \xff\xfe name")).write_text("undecodable")
        return {"made": Path(os.fsdecode(b"bad \xff\xfe name")), "all": [os.path.abspath(os.fsdecode(b"bad \xff\xfe name"))]}
""",
    )
    for name in names:
        (project.folder / name).write_text(f"content of {name}")
    run = project.run()
    assert not list(project.folder.rglob("pwned"))
    return run


def test_file_names_reach_commands(files: Run) -> None:
    names = [name for name in NAMES if not name.startswith("~")]
    for number, name in enumerate(names):
        assert files.artifact("copy", f"o{number}").read_text() == f"content of {name}"
        assert files.artifact("touch", f"o{number}").name == name
    assert files.stdout("read") == "".join(f"content of {name}" for name in names)


def test_output_names_from_values_reach_other_stages(files: Run) -> None:
    names = [name for name in NAMES if not name.startswith("~")]
    assert files.stdout("gathered") == files.stdout("in_words") == "".join(names)
    assert [Path(path).name for path in json.loads(files.stdout("in_file"))["all"]] == names
    assert files.value("in_python", "texts") == names


def test_a_file_name_that_is_no_utf_8_reaches_other_stages(files: Run) -> None:
    place = files.artifact("undecodable", "made")
    assert os.fsencode(place.name) == b"bad \xff\xfe name"
    for stage in ("cat_undecodable", "list_undecodable", "env_undecodable"):
        assert files.stdout(stage) == "undecodable"
    assert json.loads(files.stdout("json_undecodable"))["one"] == str(place)
    assert files.value("reads_undecodable", "texts") == ["undecodable"]


def test_a_second_run_finds_all_of_it_in_the_cache(files: Run) -> None:
    project = Project(files.root.parent.parent)
    again = project.run()
    assert again.workers() == 0
    assert again.values("in_python", "texts") == files.values("in_python", "texts")


# --- what cannot arrive is refused ------------------------------------------------------------

REFUSED = r"""
    axes:
      v: {values: ["a\0b", "c"]}
    stages:
      listed: {over: [v], command: [echo, "${{ v }}"]}
      shell: {over: [v], command: "echo ${{ v }}"}
      env: {over: [v], command: [env], env: {A: "${{ v }}"}}
      env_of_module: {over: [v], module: "tools:echo", env: {A: "${{ v }}"}, params: {value: 1, mixed: 1}}
      output: {over: [v], command: [touch, c], outputs: {x: "${{ v }}"}}
      module: {over: [v], module: "tools:echo", params: {value: "${{ v }}", mixed: ""}}
      written: {over: [v], command: ["sh", "-c", 'cat "$DIEL_PARAMS"']}
      home: {command: [touch, c], outputs: {x: "${{ '~' + 'root' }}"}}
      absolute: {command: [touch, c], outputs: {x: "${{ '/' }}tmp/c"}}
      nothing: {command: [touch, c], outputs: {x: "${{ '' }}"}}
      program: {command: ["${{ '' }}"]}
      surrogate: {command: "printf '{\"a\": \"\\\\udcff\"}' > $DIEL_RESULT"}
      half: {command: "printf '{\"a\": \"\\\\ud800\"}' > $DIEL_RESULT"}
      half_of_module: {module: "tools:half"}
      surrogate_of_module: {module: "tools:surrogate"}
      surrogate_read: {command: [echo, "${{ surrogate_of_module.value }}"]}
"""


def test_a_nul_reaches_modules_and_files_and_is_refused_elsewhere(tmp_path: Path) -> None:
    run = Project(tmp_path).workflow(REFUSED).module("tools", TOOLS).run(code=1)
    assert run.values("module", "value") == ["a\0b", "c"]
    assert json.loads(run.stdout("written", 0)) == {"v": "a\0b"}
    for stage in ("listed", "shell", "env", "env_of_module", "output"):
        assert run.counts(stage) == {"failed": 1, "done": 1}, stage
        assert "NUL" in run.failure(stage)["message"], stage
        assert len(run.attempts(stage)) <= 1
    for stage in ("home", "absolute", "nothing"):
        assert "output 'x'" in run.failure(stage)["message"]
        assert run.attempts(stage) == []
    assert run.value("surrogate", "a") == run.value("surrogate_of_module", "value") == "\udcff"
    for stage in ("half", "half_of_module"):
        assert "no text in UTF-8 holds '\\ud800'" in run.failure(stage)["message"]
    assert run.stdout("surrogate_read") == "\udcff\n"
    assert run.failure("program")["class"] in ("launch", "upstream")
