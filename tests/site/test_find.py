"""Sites: found by name, read with all their faults, extended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import SpecError, UsageError
from diel.site.find import find_program, find_site, read_site
from diel.site.shape import lacks
from diel.workflow.models import Resources
from tests.test_broken import check_told

SITE = "name: {name}\nscheduler: local\npools: {{cpu: {{cores: 4}}}}\n"


def asked(**resources: Any) -> Resources:
    return Resources.model_validate(resources)


def test_programs_beside_this_python_come_before_those_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("beside", "path"):
        for name in ("both", *(["only"] if folder == "path" else [])):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / name).write_text("#!/bin/sh\n")
            (tmp_path / folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "beside" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_program("both") == str(tmp_path / "beside" / "both")
    assert find_program("only") == str(tmp_path / "path" / "only")
    assert find_program("neither") is None


@pytest.fixture
def folders(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workflow's folder, the current directory and the user's configuration, all with sites."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(workspace / "config"))
    for place, names in {
        "flow/schedulers": ("a", "local"),
        "schedulers": ("a", "b"),
        "config/diel/schedulers": ("a", "b", "c"),
    }.items():
        (workspace / place).mkdir(parents=True)
        for name in names:
            text = SITE.format(name=name) + f"description: {place}\n"
            (workspace / place / f"{name}.yaml").write_text(text)
    return workspace


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("a", "flow/schedulers"),
        ("b", "schedulers"),
        ("c", "config/diel/schedulers"),
        (None, "flow/schedulers"),
    ],
)
def test_the_nearest_site_of_a_name_wins(folders: Path, name: str | None, place: str) -> None:
    assert find_site(name, folders / "flow").description == place


def test_the_environment_names_the_site_where_the_command_line_does_not(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIEL_SITE", "c")
    assert find_site(None, folders / "flow").name == "c"
    assert find_site("b", folders / "flow").name == "b"


def test_a_site_file_is_named_by_its_path_too(folders: Path) -> None:
    assert find_site("config/diel/schedulers/c.yaml", folders / "flow").name == "c"
    with pytest.raises(UsageError, match=r"none\.yaml"):
        find_site("none.yaml", folders / "flow")


def test_a_site_that_is_not_there_is_told_with_those_that_are(folders: Path) -> None:
    with pytest.raises(UsageError, match="no site 'loca'; did you mean 'local'"):
        find_site("loca", folders / "flow")
    with pytest.raises(UsageError, match="no site 'zzzzz'; sites: a, aurora, b, c, flux, frontier, "):
        find_site("zzzzz", folders / "flow")


def test_this_machine_is_a_site_out_of_the_box(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(workspace))
    local = find_site(None, workspace)
    assert (local.name, local.scheduler) == ("local", "local")
    assert lacks(next(iter(local.pools.values())), asked()) == []


# --- extending -----------------------------------------------------------------------------------


@pytest.fixture
def sites(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `schedulers/`, and a user's configuration of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(workspace / "config"))
    (workspace / "schedulers").mkdir()
    (workspace / "config" / "diel" / "schedulers").mkdir(parents=True)
    return workspace / "schedulers"


def test_a_site_that_extends_another_changes_what_it_says_alone(sites: Path) -> None:
    (sites / "mine.yaml").write_text(
        "extends: perlmutter\naccount: m1\npools: {gpu: {blocks: 9}, more: {cores: 2}}\n"
    )
    mine, base = find_site("mine", Path()), find_site("perlmutter", Path())
    assert mine.name == "mine"
    assert mine.account == "m1"
    assert mine.pools["gpu"] == base.pools["gpu"].model_copy(update={"blocks": 9})
    assert mine.pools["cpu"] == base.pools["cpu"]
    assert list(mine.pools) == [*base.pools, "more"]


def test_a_site_beside_the_file_is_found_wherever_the_file_lies(sites: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "base.yaml").write_text(SITE.format(name="base"))
    (tmp_path / "far" / "mine.yaml").write_text("extends: base\naccount: a\n")
    found = find_site(str(tmp_path / "far" / "mine.yaml"), Path())
    assert (found.name, found.account, list(found.pools)) == ("mine", "a", ["cpu"])


def test_a_list_replaces_the_list_of_the_site_below(sites: Path) -> None:
    (sites / "mine.yaml").write_text("extends: slurm\nlauncher: [srun, --mpi=pmi2]\n")
    assert find_site("mine", Path()).launcher == ("srun", "--mpi=pmi2")


def test_a_file_may_extend_the_next_one_of_its_own_name(sites: Path) -> None:
    (sites / "slurm.yaml").write_text("extends: slurm\naccount: project\n")
    (sites.parent / "config" / "diel" / "schedulers" / "slurm.yaml").write_text(
        "extends: slurm\naccount: user\npools: {slurm: {queue: long}}\n"
    )
    found = find_site("slurm", Path())
    assert (found.name, found.account) == ("slurm", "project")
    assert (found.pools["slurm"].queue, found.pools["slurm"].cores) == ("long", 4)


def test_a_fault_of_the_site_below_is_told_at_its_own_place(sites: Path) -> None:
    (sites / "base.yaml").write_text("name: base\nscheduler: slurm\npools: {p: {cores: 0}}\n")
    (sites / "mine.yaml").write_text("extends: base\naccount: a\n")
    with pytest.raises(SpecError) as error:
        find_site("mine", Path())
    assert str(error.value).startswith("schedulers/base.yaml:3:20: pools.p.cores: ")


def test_a_fault_in_what_is_added_is_told_in_the_file_that_adds_it(sites: Path) -> None:
    (sites / "mine.yaml").write_text("extends: perlmutter\npools:\n  gpu:\n    gpus: many\n")
    with pytest.raises(SpecError) as error:
        find_site("mine", Path())
    assert str(error.value).startswith("schedulers/mine.yaml:4:11: pools.gpu.gpus: ")


def test_sites_that_extend_each_other_in_a_circle_are_refused(sites: Path) -> None:
    for name, base in {"a": "b", "b": "c", "c": "a"}.items():
        (sites / f"{name}.yaml").write_text(f"account: x\nextends: {base}\n")
    with pytest.raises(SpecError) as error:
        find_site("a", Path())
    assert "schedulers/c.yaml:2:10: extends: sites extend each other in a circle" in str(error.value)
    assert "a.yaml → b.yaml → c.yaml → a.yaml" in str(error.value)


def test_a_file_alone_of_its_name_cannot_extend_itself(sites: Path) -> None:
    (sites / "alone.yaml").write_text("extends: alone\n")
    with pytest.raises(SpecError, match="alone.yaml:1:10: extends: no site 'alone'"):
        find_site("alone", Path())


def test_the_account_of_the_environment_beats_that_of_the_files(
    sites: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sites / "mine.yaml").write_text("extends: frontier\naccount: abc123\n")
    assert find_site("mine", Path()).account == "abc123"
    monkeypatch.setenv("DIEL_ACCOUNT", "def456")
    assert find_site("mine", Path()).account == "def456"
    assert find_site("frontier", Path()).account == "def456"


# --- files that are wrong: all that is in one is told at once ---------------------------------------

FILES = sorted((Path(__file__).parent.parent / "broken_sites").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_broken_site_is_refused_with_the_message_it_expects(path: Path) -> None:
    assert len(FILES) > 10
    with pytest.raises(SpecError) as error:
        read_site(path)
    check_told(path, str(error.value))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: s\nname: t\nscheduler: local\npools: {p: {}}\n", ":2:1"),
        ("name: [\n", ":2:"),
        ("- 1\n", ":1:1"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(SpecError, match=f"s.yaml{told}"):
        read_site(tmp_path / "s.yaml")


# --- words that reach job scripts ------------------------------------------------------------------


@pytest.mark.parametrize("account", ["a b", "a\n#SBATCH --wrap", "$(id)", "a;b", "-x", "a'b", "`id`"])
def test_an_account_of_the_environment_is_one_word(
    sites: Path, monkeypatch: pytest.MonkeyPatch, account: str
) -> None:
    monkeypatch.setenv("DIEL_ACCOUNT", account)
    with pytest.raises(UsageError, match="DIEL_ACCOUNT: expected one word"):
        find_site("slurm", Path())


@pytest.mark.parametrize("account", ["m1234_g", "NAISS2024-1-2", "p.q@head:/x+y", "a,b", "100%"])
def test_accounts_as_sites_have_them_are_taken(
    sites: Path, monkeypatch: pytest.MonkeyPatch, account: str
) -> None:
    monkeypatch.setenv("DIEL_ACCOUNT", account)
    assert find_site("slurm", Path()).account == account


def test_what_a_shell_or_a_program_reads_in_braces_stays(sites: Path) -> None:
    (sites / "mine.yaml").write_text(
        "extends: slurm\n"
        "launcher: [sh, -c, 'awk \"{print $1}\" ${HOSTS}; x() { y; }', '{ranks}']\n"
        "setup: ['x() { y; }; export A=${B}']\n"
    )
    assert find_site("mine", Path()).launcher[2].endswith("x() { y; }")


# --- hints -----------------------------------------------------------------------------------------


def test_a_site_is_not_suggested_to_itself(sites: Path) -> None:
    (sites / "nothere.yaml").write_text("extends: nowhere\n")
    with pytest.raises(SpecError) as error:
        find_site("nothere", Path())
    assert "sites: aurora, " in str(error.value)
    assert "nothere," not in str(error.value)


def test_a_directory_and_an_empty_file_are_told_as_sites(sites: Path) -> None:
    (sites / "folder.yaml").mkdir()
    (sites / "empty.yaml").write_text("# nothing\n")
    with pytest.raises(SpecError, match="name the site file in it"):
        find_site("folder", Path())
    with pytest.raises(SpecError, match="the file is empty\n    write `extends: slurm`"):
        find_site("empty", Path())
