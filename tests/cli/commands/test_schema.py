"""`diel schema`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diel.schema import schema
from tests.cli.call import call

Capture = pytest.CaptureFixture[str]


def test_the_schema_is_printed_as_json(capsys: Capture) -> None:
    assert json.loads(call(capsys, "schema").out) == schema()


def test_a_file_gets_it_and_the_user_the_line_for_the_editor(workspace: Path, capsys: Capture) -> None:
    said = call(capsys, "schema", "-o", "s.json")
    assert (said.code, said.out) == (0, "")
    assert "# yaml-language-server: $schema=s.json" in said.err
    assert json.loads(Path("s.json").read_text("utf-8")) == schema()


def test_a_place_that_cannot_be_written_is_told(workspace: Path, capsys: Capture) -> None:
    said = call(capsys, "schema", "-o", "no/where.json")
    assert (said.code, "cannot write no/where.json" in said.err) == (1, True)
