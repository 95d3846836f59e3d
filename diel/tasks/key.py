"""What a result depends on, as digests: the parts of a task's cache key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diel.artifacts import Artifact, content, digest_of
from diel.modules.catalogue import Module
from diel.spec import Output, Stage

APART = {"stream", "units", "digest", "keep", "drain"}
"""Keys of an output that are no part of a key: they say nothing of what is made."""


def family_parts(stage: Stage, module: Module | None, files: Mapping[str, str]) -> dict[str, str]:
    """Digests of what all tasks of a stage share: the parts of the cache key but two."""
    reference = "" if module is None else f"{module.reference}:{module.function}"
    digest = "" if module is None else module.digest
    outputs = {name: _made(output) for name, output in stage.outputs.items()}
    command = list(stage.command) if isinstance(stage.command, tuple) else stage.command
    if stage.interpreter:
        command = [*stage.interpreter, command]
    return {
        "module": digest_of([reference, digest])[:16],
        "command": digest_of([command, outputs])[:16],
        "params": digest_of([dict(stage.params)])[:16],
        "files": digest_of([[name, content(Path(path))[1]] for name, path in files.items()])[:16],
        "env": digest_of([dict(stage.env)])[:16],
    }


def _made(output: Output) -> list[Any]:
    """An output as it enters a key: what it is and promises; not how long it is kept, nor its units."""
    plain: list[Any] = [output.path, output.value]
    promised = output.model_dump(exclude={"path", "value", *APART}, exclude_defaults=True)
    return [*plain, promised] if promised else plain


def digest_of_values(values: Mapping[str, Any]) -> str:
    """The digest of what a task reads: of artifacts their content counts, and not where they lie."""
    return digest_of([_keyed(values)])


def _keyed(value: Any) -> Any:
    if type(value) is Artifact:
        return {"artifact": value.digest}
    if isinstance(value, dict):
        return {key: _keyed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_keyed(item) for item in value]
    return value
