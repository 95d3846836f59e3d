"""A run tells whoever asked for it, once, and goes its way whatever becomes of that."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.notify.post import Mailbox, Posts, mail_server, web_server
from tests.throwaway import Project

FLOW = """
stages:
  bad: {command: "test -e mended || exit 3"}
  slow: {command: "while ! test -e %s/go; do sleep 0.05; done"}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Project(tmp_path / "project").workflow(FLOW % tmp_path)


def settings(project: Project, text: str) -> Path:
    file = project.folder.parent / "config" / "diel" / "config.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def until(what: object, seconds: float = 30) -> None:
    assert callable(what)
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def both(box: Mailbox, posts: Posts) -> str:
    return (
        f"notify: [{{mail: me@example.org, smtp: 'smtp://localhost:{box.port}'}}, "
        f"{{webhook: 'http://localhost:{posts.port}/s3cret-word', on: [ended, failed]}}]\n"
    )


def test_each_thing_is_told_once_though_the_controller_is_killed(project: Project) -> None:
    with mail_server() as box, web_server() as posts:
        settings(project, both(box, posts))
        first = project.start("run", "flow.yaml")
        until(lambda: box.mails and posts.bodies)
        first.kill()
        first.communicate()
        second = project.start("resume", "last")
        until(lambda: len(project.newest().records("controller")) == 2)
        (project.folder.parent / "go").touch()
        project.end(second, code=1)
        until(lambda: len(box.mails) == 2 and len(posts.bodies) == 2)
        time.sleep(0.3)  # would there be more?
    assert [subject.partition(" after ")[0] for subject in box.subjects] == [
        "flow-1: bad/0 failed",
        "flow-1 failed",
    ]
    assert [body["event"] for body in posts.bodies] == ["failed", "ended"]
    run = project.newest()
    assert not any(b"s3cret" in file.read_bytes() for file in run.root.rglob("*") if file.is_file())
    said = project.diel("status", "last", code=None)
    assert "told: ended, failed" in said


def test_a_server_that_never_answers_keeps_no_run_waiting(project: Project) -> None:
    with web_server() as posts:
        posts.open.clear()
        settings(project, f"notify: [{{webhook: 'http://localhost:{posts.port}/x'}}]\n")
        (project.folder.parent / "go").touch()
        began = time.monotonic()
        project.run(code=1)
        assert time.monotonic() - began < 15
        posts.open.set()


def test_what_cannot_be_told_is_shown_and_changes_nothing(project: Project) -> None:
    settings(project, "notify: [{command: [no-such-program]}]\n")
    (project.folder.parent / "go").touch()
    run = project.run(code=1)
    until(lambda: len(list((run.root / "notices").glob("*.jsonl"))) == 2)
    until(lambda: "not told by command-1 (ended, failed): " in project.diel("status", "last", code=None))


def test_a_wrong_address_is_refused_before_anything_is_made(project: Project) -> None:
    file = settings(project, "notify: [{mail: me, webhook: x}]\n")
    said = project.diel("run", "flow.yaml", code=2)
    assert f"{file}:1:10" in said
    assert "expected one of mail, webhook, command, apprise; found mail and webhook" in said
    assert not (project.folder / "runs").exists()


def test_a_site_tells_too_and_a_resumed_run_reads_its_file_again(project: Project) -> None:
    with web_server() as posts:
        hook = f"notify: [{{webhook: 'http://localhost:{posts.port}/s3cret-word', on: [ended]}}]"
        project.machine("here", 2, hook)
        (project.folder.parent / "go").touch()
        project.diel("run", "flow.yaml", "--site", "schedulers/here.yaml", code=1)
        project.diel("resume", "last", code=1)
        until(lambda: len(posts.bodies) == 2)
    run = project.newest()
    assert not any(b"s3cret" in file.read_bytes() for file in run.root.rglob("*") if file.is_file())
