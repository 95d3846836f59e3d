"""Reads the templates that a workflow names, so that the rest of diel finds them in its spec."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from diel.errors import Problem
from diel.files import flaw_of, read_file, reason
from diel.load.document import Document
from diel.load.nodes import Key, Source
from diel.spec import Workflow
from diel.spec.rendering import Filling, Rendering

LARGEST = 1 << 20
"""Bytes of the largest template: each task gets a text of its own."""
_AS_IT_IS = "name a file under `files` without `template`, and it is read as it is"


def renderings(spec: Workflow) -> Iterator[tuple[Key, Rendering]]:
    """The templates of all stages, with their keys."""
    for name, stage in spec.stages.items():
        for label, given in stage.rendered.items():
            yield ("stages", name, "files", label), given


def read_templates(document: Document, folder: Path) -> Iterator[Problem]:
    """Reads the templates of a workflow, and tells which of them cannot be used."""
    for key, given in renderings(document.spec):
        path, shown = folder / given.template, document.path.parent / given.template
        try:
            if flaw := flaw_of(path):
                absent = flaw == "is not there"
                message = f"no file '{given.template}' in {shown.parent}" if absent else f"{shown} {flaw}"
                yield document.problem((*key, "template"), message, "paths are relative to the workflow file")
                continue
            data = read_file(path, LARGEST)
            if len(data) > LARGEST:
                message = f"{shown} is larger than {LARGEST >> 20} MiB"
                yield document.problem((*key, "template"), message, _AS_IT_IS)
                continue
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            before = data[: error.start].decode("utf-8")
            message = f"byte {data[error.start]:#04x} is not UTF-8"
            yield Source(shown, before).at(len(before), key, message, f"save it in UTF-8; or {_AS_IT_IS}")
        except (OSError, ValueError) as error:
            yield document.problem((*key, "template"), f"{shown} cannot be read: {reason(error)}")
        else:
            if (place := text.find("\0")) >= 0:
                yield Source(shown, text).at(place, key, "a NUL character: this is no text", _AS_IT_IS)
            executable = os.access(path, os.X_OK)
            made, edits = document.elsewhere.renamed(key, text) if document.elsewhere else (text, [])
            given.fill(Filling(made, executable, text, edits) if edits else Filling(text, executable))


def fill_templates(spec: Workflow, kept: Mapping[str, Filling]) -> None:
    """Give the templates of a run's workflow their texts of when it was made, which old runs keep by file."""
    for key, given in renderings(spec):
        earlier = f"{key[1]}:{given.template}" if "." in str(key[1]) else given.template
        given.fill(kept.get(".".join(map(str, key)), kept.get(earlier, given.filling)))


def kept_templates(spec: Workflow) -> dict[str, Filling]:
    """What is in the templates, by their keys, for the run to keep: each stage has its own names."""
    return {".".join(map(str, key)): given.filling for key, given in renderings(spec)}
