"""Whom runs tell: what the page shows is read, and what is wrong is said at its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from diel.base.errors import SpecError
from diel.site.find import read_site
from diel.site.notify import addresses, notify_again, read_user_file
from diel.site.site import Site


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "diel").mkdir()
    return tmp_path / "diel" / "config.yaml"


def test_what_the_page_shows_is_read(root: Path, file: Path) -> None:
    (block,) = re.findall(
        r"```yaml\n(notify:\n.*?)```", (root / "docs/sites.md").read_text("utf-8"), re.DOTALL
    )
    file.write_text(block)
    found = read_user_file(file).notify
    assert [one.way for one in found] == ["mail", "webhook", "command", "apprise"]
    assert (found[3].after, found[1].on) == (7200, ("failed", "held"))


def test_without_a_file_nobody_is_told(file: Path) -> None:
    assert not file.exists()
    assert read_user_file(file).notify == ()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("notify: [{mail: me}]", "1:17: .*an address with @"),
        ("notify: [{webhook: ftp://x}]", "begins with https://"),
        ("notify: [{mail: a@b, smtp: b}]", "smtp://HOST"),
        ("notify: [{on: [ended]}]", "expected one of mail, webhook, command, apprise; found none"),
        ("notify: [{mail: a@b, on: [never]}]", "never"),
        ("notfy: []", "did you mean 'notify'"),
        ("notify: [{mail: a@b", "config.yaml"),
    ],
)
def test_what_is_wrong_is_said_at_its_line(file: Path, text: str, wrong: str) -> None:
    file.write_text(text)
    with pytest.raises(SpecError, match=wrong):
        read_user_file(file)


def test_a_site_tells_besides_the_user_and_keeps_no_address(file: Path, tmp_path: Path) -> None:
    file.write_text("notify: [{mail: a@b}]")
    place = tmp_path / "here.yaml"
    place.write_text("name: here\nscheduler: local\npools: {p: {}}\nnotify: [{webhook: https://x/s3cret}]\n")
    site = read_site(place)
    assert [one.way for one in addresses(site, file)] == ["webhook", "mail"]
    assert "s3cret" not in site.model_dump_json()
    assert Site.model_validate_json(site.model_dump_json()).notify == ()
    assert notify_again(site.file) == site.notify
    place.write_text("notify: 3")
    assert notify_again(site.file) == ()
    place.write_text("name: here\nscheduler: local\npools: {p: {}}\nnotify: [{mail: me}]\n")
    with pytest.raises(SpecError, match=r"here.yaml:4:\d+: .*an address with @"):
        read_site(place)
