"""Launchers that a workflow names: those of its site, and those that this machine has."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from diel.base.errors import SpecError
from diel.planning.check import check
from diel.planning.check.launcher import here
from diel.planning.plan import Plan, make_plan
from diel.site.find import find_site
from diel.site.site import Site

FLOW = """
    diel: 1
    name: flow
    stages:
      a: {{command: [pw.x], resources: {{ranks: 2{more}}}}}
"""
POOLS = {"p": {"cores": 4}, "q": {"cores": 4, "launcher": "b"}}
LAUNCHERS = {"a": ["a", "{ranks}"], "b": ["b", "{ranks}"]}
CLUSTER = {"name": "here", "scheduler": "slurm", "launcher": "a", "launchers": LAUNCHERS, "pools": POOLS}
SITE = Site.model_validate(CLUSTER)


def planned(more: str, site: Site = SITE) -> Plan:
    return make_plan(check(Path("w.yaml"), text=textwrap.dedent(FLOW.format(more=more))), site)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", ("a", "2")),
        (", launcher: b", ("b", "2")),
        (", pool: q", ("b", "2")),
        (", pool: q, launcher: a", ("a", "2")),
    ],
)
def test_a_plan_has_the_words_of_the_launcher_that_counts(more: str, words: tuple[str, ...]) -> None:
    assert planned(more).stages["a"].launcher == words


def test_a_name_that_the_site_does_not_have_is_refused_at_its_place() -> None:
    with pytest.raises(SpecError) as refused:
        planned(", launcher: openmpi")
    assert str(refused.value).splitlines() == [
        "w.yaml:5:56: stages.a.resources.launcher: site 'here' has no launcher 'openmpi'",
        "    launchers: a, b",
    ]


def program(folder: Path, name: str, says: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_a_machine_without_a_site_file_has_those_that_are_on_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(SpecError, match=r"has no launcher 'openmpi': there is no Open MPI on PATH"):
        planned(", launcher: openmpi", find_site("local", tmp_path))
    with pytest.raises(SpecError, match="did you mean 'openmpi'"):
        planned(", launcher: opnmpi", find_site("local", tmp_path))
    mine = program(tmp_path, "mpirun", "mpirun (Open MPI) 4.1.6")
    found = planned(", launcher: openmpi", find_site("local", tmp_path))
    assert found.stages["a"].launcher[0] == str(mine)
    assert found.stages["a"].launcher[-2:] == ("-n", "2")
    assert ("--allow-run-as-root" in found.stages["a"].launcher) == (os.geteuid() == 0)
    assert found.site.launchers["openmpi"][-1] == "{ranks}"  # as the run keeps it
    assert here("mpich") == ()


def test_what_a_site_file_says_of_them_counts(tmp_path: Path) -> None:
    site = find_site("local", tmp_path).model_copy(update={"launchers": {"openmpi": ("mine", "{ranks}")}})
    assert planned(", launcher: openmpi", site).stages["a"].launcher == ("mine", "2")
