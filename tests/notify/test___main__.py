"""The process that tells one address of one notice."""

from __future__ import annotations

import io
import json
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from diel.worker.notify import __main__ as sender
from tests.notify.post import mail_server, web_server

MESSAGE = {
    "subject": "w-1: train/3 (λ=2) failed",
    "text": "class app: no mesh\ndiel explain w-1 train/3",
    "facts": {"event": "failed", "run": "w-1"},
}


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "LIMIT", 2)
    monkeypatch.setattr(sender, "PATIENCE", 0.2)


def tell(
    folder: Path, monkeypatch: pytest.MonkeyPatch, end_of: str = "", **address: Any
) -> tuple[int, list[dict[str, Any]]]:
    """The sender's exit code, and what it noted."""
    file = folder / "failed.x-1.jsonl"
    given = {"file": str(file), "about": "failed", "kind": "failed", "way": "x-1", "end_of": end_of}
    monkeypatch.setattr(
        sys, "stdin", io.StringIO(json.dumps({**given, "address": address, "message": MESSAGE}))
    )
    code = sender.main()
    return code, [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_mail_arrives_once_whoever_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", "s3cret-word")
    with mail_server() as box:
        smtp = f"smtp://me:$WORD@localhost:{box.port}"
        for _ in range(2):
            code, noted = tell(tmp_path, monkeypatch, mail="a@example.org, b@example.org", smtp=smtp)
            assert code == 0
    (mail,) = box.mails
    assert (mail["Subject"], mail["To"]) == (MESSAGE["subject"], "a@example.org, b@example.org")
    assert mail.get_content().splitlines() == str(MESSAGE["text"]).splitlines()
    assert box.logins == [("me", "s3cret-word")]
    assert [one["state"] for one in noted] == ["sending", "sent"]


def test_a_web_server_gets_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret-word")
    with web_server() as posts:
        assert tell(tmp_path, monkeypatch, webhook=f"http://localhost:{posts.port}/$TOKEN")[0] == 0
    assert posts.paths == ["/s3cret-word"]
    (body,) = posts.bodies
    assert body["text"].startswith(f"{MESSAGE['subject']}\n")
    assert (body["event"], body["run"]) == ("failed", "w-1")


def test_a_web_server_gets_the_name_and_password_of_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORD", "s3cret%2Fword")
    with web_server() as posts:
        address = f"http://me:$WORD@127.0.0.1:{posts.port}/auth"
        assert tell(tmp_path, monkeypatch, webhook=address)[0] == 0
    assert posts.paths == ["/auth"]
    assert posts.logins == [f"Basic {b64encode(b'me:s3cret/word').decode()}"]


def test_a_program_gets_it_on_its_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    words = ["sh", "-c", f'cat > {out}; echo "$DIEL_NOTICE_EVENT" >> {out}']
    assert tell(tmp_path, monkeypatch, command=words)[0] == 0
    assert out.read_text() == f"{MESSAGE['subject']}\n{MESSAGE['text']}\nfailed\n"


@pytest.mark.filterwarnings("ignore:.imghdr. is deprecated:DeprecationWarning")  # of a library of Apprise
def test_apprise_tells_by_whatever_it_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with web_server() as posts:
        code, noted = tell(tmp_path, monkeypatch, apprise=f"json://localhost:{posts.port}/")
    assert (code, noted[-1]["state"]) == (0, "sent")
    assert posts.bodies[0]["title"] == MESSAGE["subject"]


def test_why_it_failed_is_noted_without_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with web_server() as posts:
        posts.status = 500
        code, noted = tell(tmp_path, monkeypatch, webhook=f"http://localhost:{posts.port}/s3cret-word")
    assert (code, noted[-1]["state"]) == (1, "failed")
    assert noted[-1]["message"] == "HTTP Error 500: Internal Server Error"
    assert "s3cret" not in json.dumps(noted)


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ({"webhook": "http://localhost:1/s3cret-word"}, "Connection refused"),
        ({"webhook": "http://me:s3cret-word@localhost:1/x"}, "Connection refused"),
        ({"webhook": "http://me:s3cret/word@localhost:1/x"}, "%2F"),
        ({"webhook": "http://me:s3cret-word@127.0.0.2:1/x"}, "write https://"),
        ({"webhook": "$NOT_SET/x"}, "variable NOT_SET is not set"),
        ({"webhook": "file:///etc/passwd"}, "begins with https"),
        ({"command": ["false"]}, "false: exit code 1"),
        ({"command": ["sh", "-c", "echo no paper >&2; exit 3"]}, "exit code 3: no paper"),
        ({"command": ["no-such-program"]}, "No such file"),
        ({"command": ["sleep", "60"]}, "no answer within 2 s"),
        ({"apprise": "nonsense"}, "Apprise knows no such address"),
    ],
)
def test_what_is_wrong_is_said(
    address: dict[str, Any], wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, noted = tell(tmp_path, monkeypatch, **address)
    assert code == 1
    assert wrong in noted[-1]["message"]
    assert "urlopen" not in noted[-1]["message"]
    assert "s3cret" not in noted[-1]["message"]


def test_a_password_goes_nowhere_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mail_server() as box:
        smtp = f"smtp://me:s3cret-word@127.0.0.2:{box.port}"
        code, noted = tell(tmp_path, monkeypatch, mail="a@example.org", smtp=smtp)
    assert code == 1
    assert box.logins == []
    assert "s3cret" not in json.dumps(noted)


def test_an_end_is_told_once_it_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = tmp_path / "controller-0001.jsonl"
    segment.write_text('{"event":"controller"}\n')
    assert tell(tmp_path, monkeypatch, str(segment), command=["true"]) == (0, [])
    segment.write_text('{"event":"controller"}\n{"event":"end","state":"failed","time":1}\n')
    assert tell(tmp_path, monkeypatch, str(segment), command=["true"])[1][-1]["state"] == "sent"
