"""The documents tell the truth: what they show is run, and what they list is what there is.

A page's blocks are read from top to bottom and run in one empty directory:

- a `yaml` or `python` block after a paragraph with "Save this as `NAME`" is written to that file, after one
  with "Add this to `NAME`" it is appended; a `python` block without a name is run as a script;
- each `$ command` of a `console` block is run, and must exit with 0 or with what a comment at its end says
  (`# exit code 1`). What stands below it is what it must print: `…` stands for any text or any lines,
  durations for any duration, and decimals for any number; whole numbers and words are exact;
- a `sh` block is run as a whole.

Commands that install or start all over again (`make demo` takes minutes, `make test` would run this test
itself, `git clone` and `pip install` need a network) are known by NOT_RUN and left out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from diel.base.states import EXIT_CODES
from diel.cli.commands.setup import entries
from diel.cli.main import COMMANDS, cli
from diel.workflow.expressions import FUNCTIONS
from diel.workflow.load import examine
from diel.workflow.schema import schema

RUN_PAGES = (
    "README.md",
    "docs/tutorial.md",
    "docs/searches.md",
    "docs/audits.md",
    "docs/modules.md",
    "docs/gallery.md",
    "docs/seeing.md",
)
NOT_RUN = re.compile(
    r"make (demo|test|benchmark)|git clone|(python3 -m |\S*/?bin/)?(venv|pip install)|\. \S*activate|cd diel$"
)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"\b(save|add)\s+this\s+(?:as|to)\s+`([^`]+)`", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page, with the paragraph that stands before it."""

    page: str
    line: int
    language: str
    text: str
    before: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> tuple[str, str] | None:
        """`save` or `add`, and the file that the block belongs to."""
        named = _NAMED.findall(self.before)
        return (named[-1][0].lower(), named[-1][1]) if named else None


def blocks(root: Path, page: str) -> list[Block]:
    """The blocks of a page, in order."""
    text = (root / page).read_text("utf-8")
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()].rstrip().rpartition("\n\n")[2]
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match[1], match[2], before))
    return found


# --- running a page -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """One command of a block, the exit code it must have, and the lines it must print."""

    line: int
    words: str
    code: int
    expected: tuple[str, ...]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block; those that are not run are left out."""
    known: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith("$ "):
            known.append((number, line[2:], []))
        elif known:
            known[-1][2].append(line)
        else:
            pytest.fail(f"{block.page}:{number}: a console block begins with `$ command`")
    for number, words, lines in known:
        code = re.search(r"# exit code (\d+)$", words)
        if not NOT_RUN.match(words):
            yield Command(number, words, int(code[1]) if code else 0, tuple(lines))


class Shell:
    """Runs commands one after the other; `cd` in one counts for the next."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DIEL_")}
        self.env = {
            **kept,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}",
            "NO_COLOR": "1",
            "COLUMNS": "120",
            "PYTEST_DEBUG_TEMPROOT": str(folder),  # where a page's pytest tidies up after earlier runs
        }

    def run(self, script: str) -> tuple[int, str]:
        """Exit code, and standard output and error as they came."""
        place = self.folder / ".place"
        done = subprocess.run(
            ["sh", "-c", f'{script}\ncode=$?\npwd > "$PLACE"\nexit $code\n'],
            cwd=self.folder,
            env={**self.env, "PLACE": str(place)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
        )
        if place.exists():
            self.folder = Path(place.read_text().strip())
            place.unlink()
        return done.returncode, done.stdout.decode("utf-8", "replace")


_TIME = r"\d+d\d\dh|\d+h\d\dm|\d+m\d\ds|\d+(?:\.\d+)?m?s\b"
_DECIMAL = r"-?\d+\.\d+(?:e[-+]?\d+)?"
_TOKENS = re.compile(
    rf"(?P<any>…)|(?P<time>{_TIME})|(?P<decimal>{_DECIMAL})|(?P<rule>─+|[█░]+)|(?P<space>\s+)"
)
_AS = {
    "any": ".*",
    "time": f"(?:{_TIME})",
    "decimal": r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?",
    "rule": "[─█░]+",
    "space": r"\s+",
}


def pattern(line: str) -> str:
    """What an expected line stands for, as a regular expression."""
    parts, end = [], 0
    for token in _TOKENS.finditer(line):
        parts += [re.escape(line[end : token.start()]), _AS[str(token.lastgroup)]]
        end = token.end()
    return "".join([*parts, re.escape(line[end:])])


def agrees(expected: tuple[str, ...], printed: str) -> bool:
    """Whether a command printed what a page says; blank lines do not count."""
    wanted = [line.strip() for line in expected if line.strip()]
    found = "".join(f"{line.strip()}\n" for line in printed.splitlines() if line.strip())
    whole = "".join("(?:.*\n)*?" if line == "…" else f"{pattern(line)}\n" for line in wanted)
    return re.fullmatch(whole, found) is not None


def check_command(shell: Shell, command: Command, page: str) -> None:
    code, printed = shell.run(command.words)
    said = f"{page}:{command.line}: $ {command.words}\n{printed}"
    assert code == command.code, f"exit code {code}, expected {command.code}:\n{said}"
    assert "Traceback" not in printed, said
    if command.expected:
        wanted = "\n".join(command.expected)
        assert agrees(command.expected, printed), f"{said}\n--- the page says:\n{wanted}"


def run_block(shell: Shell, block: Block) -> None:
    file = block.file
    if block.language == "console":
        for command in commands(block):
            check_command(shell, command, block.page)
    elif block.language == "sh":
        lines = [line for line in block.text.splitlines() if not NOT_RUN.match(line)]
        if lines:
            script = "\n".join(["set -e", *lines])
            check_command(shell, Command(block.line, script, 0, ()), block.page)
    elif file is not None:
        path = shell.folder / file[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        old = path.read_text("utf-8") if file[0] == "add" else ""
        path.write_text(old + block.text, "utf-8")
    elif block.language == "python":
        (shell.folder / ".script.py").write_text(block.text, "utf-8")
        check_command(shell, Command(block.line, "python .script.py", 0, ()), block.page)
    else:
        assert block.language == "text", f"{block.where}: a {block.language} block needs the name of its file"


@pytest.mark.parametrize("page", RUN_PAGES)
def test_a_page_can_be_followed_from_top_to_bottom(root: Path, tmp_path: Path, page: str) -> None:
    shell = Shell(tmp_path)
    for block in blocks(root, page):
        run_block(shell, block)


def test_the_page_about_clusters_shows_what_is_printed(root: Path, tmp_path: Path) -> None:
    """Here, where a run that was submitted has a controller of its own too."""
    shell = Shell(tmp_path)
    shown = [block for block in blocks(root, "docs/clusters.md") if block.language == "console"]
    assert len(shown) == 1
    run_block(shell, shown[0])


def test_expected_output_is_compared_word_by_word() -> None:
    shown = ("walk-1 succeeded after 0.8s: 153 tasks done", "", "  10     8.5", "…")
    assert agrees(shown, "walk-1 succeeded after 1m02s: 153 tasks done\n 10  9\nmore\nand more\n")
    assert not agrees(shown, "walk-1 succeeded after 1m02s: 152 tasks done\n10  9\n")
    assert not agrees(shown, "walk-1 failed after 1.0s: 153 tasks done\n10  9\n")
    assert not agrees(shown[:3], "walk-1 succeeded after 1.0s: 153 tasks done\n10  9\nmore\n")


# --- the workflow file's reference ----------------------------------------------------------------

REFERENCE = "docs/workflow-file.md"


def documented_keys(root: Path) -> dict[str, dict[str, tuple[str, str]]]:
    """By model, as `<!-- keys: MODEL -->` names it: each key of the table that follows, with its row."""
    text = (root / REFERENCE).read_text("utf-8")
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for match in re.finditer(r"<!-- keys: (\w+) -->\n\n((?:\|.*\n)+)", text):
        rows = [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in match[2].splitlines()
        ]
        assert rows[0][0] == "key", match[1]
        found[match[1]] = {row[0].strip("`"): (row[1].strip("`"), row[2]) for row in rows[2:]}
    return found


def models() -> dict[str, dict[str, Any]]:
    """The models of the JSON Schema, each with its `properties`."""
    whole = schema()
    found = {"Workflow": whole}
    for name, model in whole["$defs"].items():
        if name == "PartialStage":  # the keys of a stage
            continue
        found[name] = next((b for b in model.get("anyOf", ()) if "properties" in b), model)
    return found


def test_the_reference_lists_every_key_and_no_other(root: Path) -> None:
    listed = documented_keys(root)
    known = models()
    known.pop("StaticForm")  # the four forms of `zip`, which an axis has too
    assert {name: set(keys) for name, keys in listed.items()} == {
        name: set(model["properties"]) for name, model in known.items()
    }


def test_the_reference_tells_each_default(root: Path) -> None:
    wrong = []
    for name, keys in documented_keys(root).items():
        model = models()[name]
        for key, (told, _) in keys.items():
            given = model["properties"][key].get("default")
            if key in model.get("required", ()):
                expected = "required"
            else:
                empty = given is None or given in ("", [], {}) or isinstance(given, dict)
                expected = "" if empty else json.dumps(given).strip('"')
            if told != expected:
                wrong.append(f"{name}.{key}: {told!r}, expected {expected!r}")
    assert wrong == []


def test_every_yaml_of_the_reference_is_read_without_a_problem(root: Path, tmp_path: Path) -> None:
    for block in blocks(root, REFERENCE):
        if block.language == "yaml":
            part = yaml.safe_load(block.text)
            text = block.text
            for key, stand_in in {"diel": "diel: 1", "name": "name: example"}.items():
                text = text if key in part else f"{stand_in}\n{text}"
            text = text if "stages" in part else f'{text}\nstages: {{only: {{command: ["true"]}}}}\n'
            if "name" in part:  # which later ones may include
                (tmp_path / f"{part['name']}.yaml").write_text(text)
            _, problems = examine(text, tmp_path / "shown.yaml")
            assert problems == [], block.where


def test_the_reference_names_every_function_of_expressions(root: Path) -> None:
    line = re.search(r"^Functions: (.*)$", (root / REFERENCE).read_text("utf-8"), re.MULTILINE)
    assert line is not None
    assert set(re.findall(r"`(\w+)`", line[1])) == set(FUNCTIONS)


# --- the reference of the commands ----------------------------------------------------------------


def sections(root: Path) -> dict[str, str]:
    """The sections `## diel COMMAND` of docs/cli.md."""
    parts = re.split(r"^## diel (\w+)$", (root / "docs/cli.md").read_text("utf-8"), flags=re.MULTILINE)
    return {
        name: re.split(r"^## ", text, flags=re.MULTILINE)[0]
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_each_command_has_its_section_with_all_of_its_options(root: Path) -> None:
    told = sections(root)
    assert list(told) == list(COMMANDS)
    context = click.Context(cli)
    for name, text in told.items():
        command = cli.get_command(context, name)
        assert command is not None
        below = command.commands.values() if isinstance(command, click.Group) else ()
        options = {
            option
            for parameter in [*command.params, *(one for each in below for one in each.params)]
            if isinstance(parameter, click.Option)
            for option in parameter.opts
            if option.startswith("--")
        }
        assert set(re.findall(r"(?<!\w)--[a-z][a-z-]*", text)) == options, name


def test_the_exit_codes_of_status_are_those_that_it_uses(root: Path) -> None:
    text = (root / "docs/cli.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \|[^|]*\| (`[a-z].*) \|$", text, re.MULTILINE)
    told = {state: int(code) for code, states in rows for state in re.findall(r"`(\w+)`", states)}
    assert told == {state.value: code for state, code in EXIT_CODES.items()}


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A directory with a run in it that failed, for all that `--json` can show."""
    folder = tmp_path_factory.mktemp("json")
    text = """\
        diel: 1
        name: shown
        hyperparameters: {size: {type: int, default: 1}}
        axes: {i: {range: 3}}
        stages:
          make:
            over: [i]
            command: test ${{ i }} != 1 && echo '{"x":' ${{ hp.size }} '}' > "$DIEL_RESULT"
            outputs: {x: {value: int}}
          use:
            over: [i]
            command: echo ${{ make.x }}
        """
    (folder / "shown.yaml").write_text(textwrap.dedent(text))
    shell = Shell(folder)
    code, printed = shell.run("diel run shown.yaml")
    assert code == 1, printed
    return shell


JSON = {
    "validate": "diel validate --json shown.yaml",
    "plan": "diel plan --json shown.yaml",
    "status": "diel status --json",
    "explain": "diel explain --json",
    "results": "diel results last make --json",
    "params": "diel params --json",
    "list": "diel list --json",
    "modules": "diel modules simulation.ising --json",
    "doctor": "diel doctor --json",
}


@pytest.mark.parametrize("name", JSON)
def test_the_keys_of_json_are_those_that_the_page_lists(root: Path, failed_run: Shell, name: str) -> None:
    listed = re.search(r"^JSON: (.*(?:\n.+)*)", sections(root)[name], re.MULTILINE)
    assert listed is not None, f"docs/cli.md: `diel {name}` has no line that begins with JSON:"
    code, printed = failed_run.run(f"{JSON[name]} 2> /dev/null")
    assert code in (0, 1), printed
    document = json.loads(printed)
    outer, _, inner = " ".join(listed[1].split()).partition(". ")
    assert set(re.findall(r"`(\w+)`", outer)) == set(document), name
    assert set(re.findall(r"`(\w+)`", inner)) - keys_of(document) == set(), name


def keys_of(document: Any) -> set[str]:
    """The keys of a document and of all that is in it."""
    if isinstance(document, list):
        return set().union(*map(keys_of, document))
    if not isinstance(document, dict):
        return set()
    return set(document) | keys_of(list(document.values()))


# --- links ----------------------------------------------------------------------------------------


def test_links_between_pages_lead_to_a_heading(root: Path) -> None:
    pages = [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
            path, _, anchor = re.sub(r"\s+", "", target).partition("#")
            if path.startswith("http"):
                continue
            to = page.parent / path if path else page
            assert to.exists(), f"{page.name}: {target}"
            headings = re.findall(r"^#+ (.+)$", to.read_text("utf-8"), re.MULTILINE) if anchor else []
            slugs = {re.sub(r"[^\w\- ]", "", each).strip().lower().replace(" ", "-") for each in headings}
            assert not anchor or anchor in slugs, f"{page.name}: {target}"


def test_the_tests_and_files_that_pages_name_are_there(root: Path) -> None:
    files = {
        path.relative_to(root).as_posix() for top in ("diel", "tests") for path in (root / top).rglob("*")
    }
    sources = "\n".join(path.read_text("utf-8") for path in (root / "tests").rglob("test_*.py"))
    tests = set(re.findall(r"^def (test_\w+)", sources, re.MULTILINE))
    own = {root / "docs/modules.md"}  # where readers write a test themselves
    for page in {root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").glob("*.md")} - own:
        for named in re.findall(r"`[^`\n]*`", page.read_text("utf-8")):
            for path in re.findall(r"(?<![\w./-])(?:diel|tests)/[\w/]+(?:\.py)?(?![\w*<])", named):
                assert path.rstrip("/") in files, f"{page.name}: {path}"
            for test in re.findall(r"(?<![\w/])test_\w+(?:\.py)?", named):
                assert test in tests or f"tests/{test}" in files, f"{page.name}: {test}"


# --- the site and its pictures --------------------------------------------------------------------


def test_the_front_page_lists_every_page_once(root: Path) -> None:
    """Its list is the navigation of the site; `make docs` builds that, and takes any warning for an error."""
    text = (root / "docs" / "index.md").read_text("utf-8")
    listed = re.findall(r"^- \[[^]]+\]\((\w[\w-]*\.md)\): \S", text, re.MULTILINE)
    pages = {path.name for path in (root / "docs").glob("*.md")} - {"index.md"}
    assert sorted(listed) == sorted(pages)


def test_pictures_are_there_are_described_and_are_small(root: Path) -> None:
    shown = set()
    for page in (root / "README.md", *(root / "docs").glob("*.md")):
        text = page.read_text("utf-8")
        named = re.findall(r'(?:src|srcset)="([^"]+)"', text) + re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
        shown |= {(page.parent / one).resolve() for one in named}
        told = re.findall(r'<img alt="([^"]*)"', text) + re.findall(r"!\[([^]]*)\]\(", text)
        assert len(told) == text.count("<img ") + text.count("![")
        assert all(len(one) > 20 for one in told), page.name
    kept = {path.resolve() for path in (root / "docs").rglob("*") if path.suffix in (".webp", ".svg")}
    assert shown == kept
    assert max((path.stat().st_size for path in kept), default=0) < 300_000


def test_the_gallery_shows_every_workflow_that_ships_in_the_words_of_its_file(root: Path) -> None:
    sections = re.split(r"^## ", (root / "docs" / "gallery.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    shown = {one.partition("\n")[0]: " ".join(one.split()) for one in sections}
    assert sorted(shown) == sorted(name for name, *_ in entries())
    for name, _, needs, takes in entries():
        assert f"- Needs {needs or 'nothing more'}; {takes.lower()}." in shown[name], name


def test_the_table_of_science_can_be_run_as_it_says(root: Path) -> None:
    command = [sys.executable, str(root / "docs" / "science.py"), "--list"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    table = (root / "docs" / "science.md").read_text("utf-8")
    for name in re.findall(r"^\| \[(\w+)\]", table, re.MULTILINE):
        assert any(line.startswith(f"{name}: diel run {name}.yaml") for line in said), name
        assert any(line.startswith((f"{name}: diel logs ", f"{name}: diel results ")) for line in said), name
    seeds = [line for line in said if line.startswith("ising_surrogate: diel run ")]
    assert [line.rpartition("=")[2] for line in seeds] == ["1", "2", "3", "4", "5"]


# --- the glossary ---------------------------------------------------------------------------------


def test_the_glossary_is_sorted_and_names_what_there_is(root: Path) -> None:
    page = (root / "docs/glossary.md").read_text("utf-8")
    entries = re.findall(r"^- \*\*(.+?)\*\* \(`(.+?)`\): ", page, re.MULTILINE)
    assert len(entries) == page.count("\n- ")
    terms = [term for term, _ in entries]
    assert terms == sorted(set(terms))
    keys = {key for model in models().values() for key in model["properties"]}
    keys |= set(re.findall(r"^\| `(\w+)` \|", (root / "docs/sites.md").read_text("utf-8"), re.MULTILINE))
    pages = [path for path in (root / "docs").glob("*.md") if path.name not in ("glossary.md", "map.md")]
    sources = "\n".join(path.read_text("utf-8") for path in (root / "diel").rglob("*.py"))
    texts = "\n".join(path.read_text("utf-8") for path in pages) + sources
    for term, met in entries:
        assert re.search(rf"\b{term}", texts, re.IGNORECASE), f"{term}: no page and no source uses it"
        if met.endswith(":"):
            assert met[:-1] in keys, met
        elif met.startswith("diel "):
            assert met[5:] in COMMANDS, met
        else:
            assert re.search(rf"(?<!\w){re.escape(met)}\b", sources), met


# --- the map --------------------------------------------------------------------------------------


def test_the_map_is_as_the_docstrings_are(root: Path) -> None:
    command = [sys.executable, str(root / "docs" / "map.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0, "run `make map`"


def test_the_walk_leads_by_functions_that_are_there(root: Path) -> None:
    text = (root / "docs" / "architecture.md").read_text("utf-8")
    walk = text.partition("## The way of one task")[2].partition("\n## ")[0]
    steps = re.split(r"^\d+\. ", walk, flags=re.MULTILINE)[1:]
    for step in steps:
        path, *functions = re.findall(r"`(diel/[\w/]+\.py)`|`([a-z_]+)`", step)
        source = (root / path[0]).read_text("utf-8")
        named = [name for _, name in functions if name]
        assert any(f"def {name}(" in source for name in named), step
        assert [name for name in named if name.startswith("_") and f"def {name}(" not in source] == [], step


def test_decisions_are_numbered_without_a_gap(root: Path) -> None:
    names = sorted(path.name for path in (root / "docs" / "decisions").glob("*.md"))
    assert [int(name[:3]) for name in names] == list(range(1, len(names) + 1))
    for name in names:
        first = (root / "docs" / "decisions" / name).read_text("utf-8").splitlines()[0]
        assert first.startswith(f"# {name[:3]} "), name
