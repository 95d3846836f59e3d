"""docs/sites.md: every key with its default, every site that ships, and examples that are right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from diel.base.paths import shipped
from diel.base.values import scalar
from diel.site.find import find_site
from diel.site.site import ControllerHome, FileSystem, LocalDisk, Pool, Site
from diel.workflow.models.model import SpecModel
from diel.workflow.models.notify import Notify

LEAST: dict[type[SpecModel], dict[str, Any]] = {
    Site: {"name": "s", "scheduler": "local", "pools": {"p": {}}},
    Pool: {},
    ControllerHome: {},
    FileSystem: {"path": "/scratch"},
    LocalDisk: {},
    Notify: {"command": ["true"]},
}
"""What each model cannot do without."""


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs/sites.md").read_text("utf-8")


def documented(page: str, model: str) -> dict[str, str]:
    """The keys of a model's table, each with its default as written."""
    table = re.search(rf"<!-- keys: {model} -->\n\n((?:\|.*\n)+)", page)
    assert table is not None
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[1].splitlines()]
    return {row[0].strip("`"): row[1].strip("`") for row in rows[2:]}


@pytest.mark.parametrize("model", LEAST, ids=lambda model: model.__name__)
def test_the_page_lists_every_key_and_no_other(page: str, model: type[SpecModel]) -> None:
    assert list(documented(page, model.__name__)) == list(model.model_fields)


@pytest.mark.parametrize("model", LEAST, ids=lambda model: model.__name__)
def test_the_page_tells_each_default(page: str, model: type[SpecModel]) -> None:
    least = LEAST[model]
    usual = model.model_validate(least)
    for key, told in documented(page, model.__name__).items():
        if told == "required":
            assert model.model_fields[key].is_required(), key
        elif told:
            value = yaml.safe_load(told) if told.startswith("[") else scalar(told)
            assert getattr(model.model_validate({**least, key: value}), key) == getattr(usual, key), key
            other = model.model_fields[key].get_default(call_default_factory=True)
            assert other not in (None, "", ()), key
        else:
            empty: tuple[object, ...] = (None, "", (), {}, ControllerHome(), LocalDisk())
            assert model.model_fields[key].get_default(call_default_factory=True) in empty, key


def test_the_page_names_every_site_that_ships(page: str) -> None:
    table = page.split("## Sites that ship")[1].split("## ")[0]
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert named == {path.stem for path in shipped("schedulers").glob("*.yaml")}


def test_the_examples_of_the_page_are_sites(page: str, workspace: Path) -> None:
    examples = re.findall(r"Save this as `(\S+)`:\n\n```yaml\n(.*?)```", page, re.DOTALL)
    assert len(examples) == page.count("```yaml") - 1  # the user's own file: see test_notify.py
    for name, text in examples:
        path = Path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        assert find_site(path.stem, Path()).name == path.stem
