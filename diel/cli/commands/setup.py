"""`diel init`, `diel schema` and `diel completion`: what a user sets up once."""

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from diel.base.errors import HintedError, UsageError
from diel.base.paths import shipped
from diel.cli.options import output_option, put
from diel.workflow.expressions import texts_in
from diel.workflow.load import Document, load
from diel.workflow.load.part import workflow_of, workflows
from diel.workflow.models.forms.rows import FileForm
from diel.workflow.modules.catalogue import ModuleNotFound, find, search_path

STARTER = Path(__file__).parents[1] / "starter"
"""The project to copy: a workflow, a module, a page that says what to do."""
FIRST = "workflow.yaml"
SCHEMA = Path("diel.schema.json")
"""What editors read, in the project's folder."""
_WORKFLOW = re.compile(rb"^diel:", re.MULTILINE)
_LINE = b"# yaml-language-server:"
INSTRUCTIONS = {
    "bash": 'add to ~/.bashrc:  eval "$(diel completion bash)"',
    "zsh": 'add to ~/.zshrc, after compinit:  eval "$(diel completion zsh)"',
    "fish": "run once:  diel completion fish > ~/.config/fish/completions/diel.fish",
}


@click.command("init")
@click.argument("directory", default=".", type=click.Path(path_type=Path, file_okay=False), metavar="[DIR]")
@click.option("--from", "workflow", metavar="NAME", help="A workflow that ships, with its modules and files.")
@click.option("--list", "listed", is_flag=True, help="Show what ships: what it does, needs, and takes.")
def init(directory: Path, workflow: str | None, listed: bool) -> None:
    """Make it in DIR, or here: a small sweep, a Python module of your own, a fit; and the schema with which
    editors complete keys. No existing file is overwritten.
    """
    if listed:
        click.echo(_listing())
        return
    try:
        files = _starter() if workflow is None else files_of(workflow)
    except HintedError as error:
        raise UsageError(str(error)) from None
    contents = {place: _for_editors(place, path.read_bytes()) for place, path in files.items()}
    there = [place for place, content in contents.items() if _differs(directory / place, content)]
    if there:
        why = f"{directory / there[0]} already exists, and `diel init` overwrites nothing"
        raise UsageError(f"{why}; name a new directory")
    for place, content in contents.items():
        _write(directory / place, content, files[place].stat().st_mode)
    if not os.path.lexists(directory / SCHEMA):
        _write(directory / SCHEMA, f"{_schema()}\n".encode())
    go_there = "" if directory.resolve() == Path.cwd() else f"cd {shlex.quote(str(directory))} && "
    first, path = next(iter(files.items()))
    needs = "" if workflow is None else _head(path.read_text("utf-8", "replace"))[0]
    click.echo(f"\nIt needs {needs}." if needs else "")
    click.echo(f"Now: {go_there}diel run {first}")


def _for_editors(place: Path, content: bytes) -> bytes:
    """Return a file of the project; a workflow begins with the line by which editors find its schema."""
    if place.suffix not in (".yaml", ".yml") or _WORKFLOW.search(content) is None or _LINE in content:
        return content
    return f"{_editor_line(os.path.relpath(SCHEMA, place.parent))}\n".encode() + content


def _editor_line(schema: str | Path) -> str:
    """Name the schema for JetBrains' editors and YAML's language server (VS Code, Neovim, Emacs, Helix)."""
    return f"# yaml-language-server: $schema={schema}"


def _schema() -> str:
    from diel.workflow.schema import schema  # a shell that asks for its completion shall not wait for it

    return json.dumps(schema(), indent=2, ensure_ascii=False)


def _differs(there: Path, content: bytes) -> bool:
    try:
        return os.path.lexists(there) and there.read_bytes() != content
    except OSError:
        return True


def _write(target: Path, content: bytes, mode: int | None = None) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        if mode is not None:
            target.chmod(mode)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from error
    click.echo(f"  {target}")


def _starter() -> dict[Path, Path]:
    paths = [path for path in STARTER.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    paths.sort(key=lambda path: (path.name != FIRST, path))
    return {path.relative_to(STARTER): path for path in paths}


def _listing() -> str:
    lines = []
    for name, does, needs, takes in entries():
        summary = "; ".join(filter(None, (f"needs {needs or 'nothing more'}", takes.lower())))
        lines += [name, f"    {does}", f"    {summary}", ""]
    extras = "an extra is installed by `pip install 'diel[EXTRA]'`"
    return "\n".join([*lines, f"`diel init --from NAME DIR` copies one with its modules and files; {extras}"])


@click.command("schema")
@output_option
def print_schema(output: Path | None) -> None:
    """With it, an editor completes keys and marks mistakes while you write. `diel init` sets this up; for
    other files (VS Code's YAML extension, JetBrains' editors, Neovim, Emacs, Helix):

    \b
        diel schema -o diel.schema.json

    and as the first line of a workflow file:

    \b
        # yaml-language-server: $schema=diel.schema.json

    `diel validate` checks more than a schema can say.
    """
    put(_schema(), output)
    if output is not None:
        click.echo(f"{output}: begin workflow files with `{_editor_line(output)}`", err=True)


@click.command("completion")
@click.argument("shell", type=click.Choice(list(INSTRUCTIONS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """\b
    bash:  eval "$(diel completion bash)"      in ~/.bashrc
    zsh:   eval "$(diel completion zsh)"       in ~/.zshrc, after compinit
    fish:  diel completion fish > ~/.config/fish/completions/diel.fish
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    script = shell_class(context.find_root().command, {}, "diel", "_DIEL_COMPLETE")
    click.echo(f"# {INSTRUCTIONS[shell]}")
    click.echo(script.source())


_OWN = "diel:"
_BESIDE = re.compile(r"[^/~*\n][^\n]*")
"""A path in the folder of the workflow, or a pattern of several."""
_TIME = re.compile(r"\b(seconds?|minutes?|hours?)\b")


def entries() -> Iterator[tuple[str, str, str, str]]:
    """Yield the name of each packaged workflow and what its file says that it does, needs and takes."""
    for name, path in workflows():
        text = path.read_text("utf-8", "replace")
        does = re.search(r"^description: *(.*)$", text, re.MULTILINE)
        yield name.removeprefix(_OWN), does[1].strip("\"'") if does else "", *_head(text)


def _head(text: str) -> tuple[str, str]:
    """Return what a workflow needs, and how long it takes: sentences of the comment at its beginning."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("# "):
            break
        lines.append(line.removeprefix("# "))
    parts = [part.rstrip(".") for part in re.split(r"(?<=[.?])\s+(?=[A-Z])", " ".join(lines))]
    needs = next((part.removeprefix("Needs ") for part in parts if part.startswith("Needs ")), "")
    return needs.replace("`", ""), parts[-1] if _TIME.search(parts[-1]) else ""


def files_of(word: str) -> dict[Path, Path]:
    """Return a workflow's file, then all that it reads, by their place in a project. Raise
    HintedError where no package has it, SpecError where it is wrong."""
    path = workflow_of(word if ":" in word else f"{_OWN}{word}")
    document, folder = load(path), path.parent
    sources = {Path(path.name): path}
    for name in document.included:
        if ":" not in name:  # what a package brings stays there
            sources[Path(name).relative_to(folder)] = Path(name)
    for place, path in (*_modules(document, folder), *_data(document, folder)):
        sources.setdefault(place, path)
    return sources


def _modules(document: Document, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield files of modules beside a workflow or in diel, and those that parameters name as `FILE:NAME`."""
    for name, stage in document.spec.stages.items():
        if stage.module is None:
            continue
        home = document.home(("stages", name, "module")) or folder
        try:
            module = find(stage.module, search_path(home, home))
        except ModuleNotFound:
            continue  # of a package that is still to be installed
        if module.path.is_relative_to(home):
            place = module.path.relative_to(folder)
        elif module.path.is_relative_to(shipped("modules")):
            place = Path("modules") / module.path.relative_to(shipped("modules"))
        else:
            continue
        yield place, module.path
        for path in sorted(module.path.parent.glob("*.py")):
            if re.search(rf"\b{path.stem}:\w", document.text):
                yield place.with_name(path.name), path


def _data(document: Document, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the files of stages, axes and environments; those of single points by a pattern."""
    spec = document.spec
    named = [file for stage in spec.stages.values() for file in stage.files.values()]
    words = [str(getattr(entry, "template", entry)) for entry in named]
    words += [text for entry in spec.environments.values() for _, text in texts_in(entry.model_dump())]
    words += [axis.path for axis in spec.axes.values() if isinstance(axis, FileForm)]
    for word in words:
        pattern = re.sub(r"\$\{\{.*?\}\}", "*", word, flags=re.DOTALL)
        if _BESIDE.fullmatch(pattern) is None or ".." in Path(pattern).parts:
            continue
        for top in folder.glob(pattern):
            for path in sorted(top.rglob("*")) if top.is_dir() else (top,):
                if path.is_file():
                    yield path.relative_to(folder), path
