"""Tells one address of one notice: `python -m diel.worker.notify`, with both as JSON on standard input.

It is a process of its own, so that no server keeps a run waiting, and outlives a controller that is killed.
Who makes the file of a notice has it: it is told once, whoever asks. It ends by itself.
"""

import getpass
import json
import os
import re
import signal
import smtplib
import socket
import ssl
import sys
import time
from base64 import b64encode
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from http.client import HTTPException
from pathlib import Path
from subprocess import PIPE, Popen, SubprocessError
from types import FrameType
from typing import Any, Never
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from diel.base.errors import DielError
from diel.store.journal.records import NoticeRecord
from diel.store.journal.segment import SegmentWriter

LIMIT = 30
"""Seconds in which an address must take a notice."""
PATIENCE = 15.0
"""Seconds to wait for the record of the end that is told."""
_HERE = ("localhost", "127.0.0.1", "::1")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")
_FAILURES = (OSError, ValueError, HTTPException, SubprocessError, DielError)


def main() -> int:
    """0 once it is told, or another process has it; 1 otherwise, and the notice's file says why."""
    order = json.load(sys.stdin)
    if order["end_of"] and not _has_ended(Path(order["end_of"])):
        return 0  # the controller was killed before it recorded the end: the next one tells it
    try:
        journal = SegmentWriter(Path(order["file"]))
    except FileExistsError:
        return 0
    signal.signal(signal.SIGALRM, _too_late)
    notice: NoticeRecord = {
        "event": "notice",
        "about": order["about"],
        "kind": order["kind"],
        "way": order["way"],
        "state": "sending",
        "time": time.time(),
    }
    journal.append(notice)
    wrong = ""
    try:
        signal.alarm(LIMIT)
        _tell(order["address"], order["message"])
    except _FAILURES as error:
        wrong = _without_secrets(_words(error) or type(error).__name__, order["address"])
    finally:
        signal.alarm(0)
    notice |= {"state": "failed" if wrong else "sent", "time": time.time()}
    if wrong:
        notice["message"] = wrong
    journal.append(notice)
    return 1 if wrong else 0


def _words(error: Exception) -> str:
    """Return an error's words, without Python's `<urlopen error …>`."""
    if isinstance(error, URLError) and not isinstance(error, HTTPError):
        return str(error.reason)
    return str(error)


def _too_late(number: int, frame: FrameType | None) -> Never:
    raise TimeoutError(f"no answer within {LIMIT} s")


def _has_ended(segment: Path) -> bool:
    """Return whether a controller's segment has the record of the run's end, or gets it in a while."""
    until = time.monotonic() + PATIENCE
    while True:
        with open(segment, "rb") as file:
            file.seek(max(0, os.path.getsize(segment) - 4096))
            if b'"event":"end"' in file.read().rpartition(b"\n")[0].rpartition(b"\n")[2]:
                return True
        if time.monotonic() > until:
            return False
        time.sleep(0.05)


def _expanded(text: str) -> str:
    """Return an address with its variables. Raise ValueError for one that is not set."""
    expanded = os.path.expandvars(text)
    if unset := _VARIABLE.search(expanded):
        raise ValueError(f"variable {unset[1]} is not set where the controller runs")
    return expanded


def _without_secrets(text: str, address: Mapping[str, Any]) -> str:
    """Return an error in one line, without what an address says."""
    for word in [address.get(key) or "" for key in ("webhook", "smtp", "apprise")]:
        full = os.path.expandvars(word)
        parts = urlsplit(full)
        for secret in (full, word, parts.path, parts.query, parts.password or ""):
            text = text.replace(secret, "…") if len(secret) > 3 else text
    return " ".join(text.split())[:300]


def _tell(address: Mapping[str, Any], message: Mapping[str, Any]) -> None:
    if address.get("mail"):
        _mail(address, message)
    elif address.get("webhook"):
        _post(_expanded(address["webhook"]), message)
    elif address.get("command"):
        _call(address["command"], message)
    else:
        _apprise(_expanded(address["apprise"]), message)


def _mail(address: Mapping[str, Any], message: Mapping[str, Any]) -> None:
    mail = EmailMessage()
    mail["From"] = address.get("sender") or f"{getpass.getuser()}@{socket.getfqdn()}"
    mail["To"], mail["Subject"] = _expanded(address["mail"]), message["subject"]
    mail["Date"], mail["Message-ID"] = formatdate(localtime=True), make_msgid(domain="diel")
    mail.set_content(message["text"])
    url = urlsplit(_expanded(address["smtp"]))
    host, secure = url.hostname or "localhost", ssl.create_default_context()
    if url.scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, url.port or 465, timeout=LIMIT, context=secure)
    else:
        server = smtplib.SMTP(host, url.port or 25, timeout=LIMIT)
    with server:
        if url.username:
            server.ehlo()
            if url.scheme == "smtp" and server.has_extn("starttls"):
                server.starttls(context=secure)
            elif url.scheme == "smtp" and host not in _HERE:
                raise ValueError(f"{host} offers no STARTTLS, and the password would go there as it is")
            server.login(unquote(url.username), unquote(url.password or ""))
        server.send_message(mail)


def _post(url: str, message: Mapping[str, Any]) -> None:
    if not url.startswith(("http://", "https://")):
        raise ValueError("a webhook's address begins with https://")
    body = json.dumps({"text": f"{message['subject']}\n{message['text']}", **message["facts"]}).encode()
    parts = urlsplit(url)
    who, at, where = parts.netloc.rpartition("@")
    if not re.fullmatch(r"(\[[^]]*\]|[^:]*)(:\d*)?", where):  # what looks like a port may be half a password
        raise ValueError("expected a number behind HOST: in the address; / ? # in a password are %2F %3F %23")
    if at and parts.scheme == "http" and parts.hostname not in _HERE:
        raise ValueError("write https://: the password would go there as it is")
    request = Request(parts._replace(netloc=where).geturl(), body, {"Content-Type": "application/json"})
    if at:
        name, _, password = who.partition(":")
        pair = f"{unquote(name)}:{unquote(password)}".encode()
        request.add_unredirected_header("Authorization", f"Basic {b64encode(pair).decode()}")
    with urlopen(request, timeout=LIMIT):
        pass


def _call(words: list[str], message: Mapping[str, Any]) -> None:
    """Raise ChildProcessError where the program fails; it and what it started end with the time limit."""
    facts = {f"DIEL_NOTICE_{name.upper()}": str(value) for name, value in message["facts"].items()}
    env = {**os.environ, **facts}
    with Popen(
        words, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True, env=env, start_new_session=True
    ) as program:
        try:
            _, output = program.communicate(f"{message['subject']}\n{message['text']}\n")
        except TimeoutError:
            os.killpg(program.pid, signal.SIGKILL)
            raise
    if program.returncode:
        last = output.strip().rpartition("\n")[2]
        raise ChildProcessError(f"{words[0]}: exit code {program.returncode}{': ' if last else ''}{last}")


def _apprise(url: str, message: Mapping[str, Any]) -> None:
    try:
        import apprise  # an extra, and slow to import
    except ImportError as error:
        raise DielError("Apprise is not here: pip install 'diel[notify]'") from error
    sender = apprise.Apprise()
    if not sender.add(url):
        raise ValueError("Apprise knows no such address")
    if not sender.notify(title=message["subject"], body=message["text"]):
        raise DielError("Apprise could not deliver it")


if __name__ == "__main__":
    sys.exit(main())
