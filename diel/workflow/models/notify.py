"""The addressees of a run's news: `notify`, in a site's file or the user's own."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from diel.workflow.models.model import Duration, Items, SpecModel, Text, Violation, optional

Kind = Literal["ended", "failed", "held", "waiting"]
"""A run ended, a task failed for good (the first), a stage is held, a block waits long."""
EXAMPLE = "write `notify: [{mail: me@example.org}]`; docs/sites.md has examples"


class Notify(SpecModel):
    """One address. But for `command`, it may name variables of the controller, as $TOKEN."""

    mail: Text | None = optional("Address to write to; several with commas.", min_length=1)
    smtp: Text = optional(
        "The mail server: smtp://host:port, smtps://user:$PASSWORD@host.", "smtp://localhost"
    )
    sender: Text | None = optional("Who writes; user@host if absent.")
    webhook: Text | None = optional("Address that gets a POST with JSON.", min_length=1)
    command: Items[Text] = optional("Words of a program; the text is its standard input.", ())
    apprise: Text | None = optional("Address of whatever Apprise knows, such as ntfy://topic.")
    on: Items[Kind] = Field(default=("ended", "failed", "held", "waiting"), description="What is told.")
    after: Duration = optional("How long a block waits before that is told.", 3600.0, ge=0)

    @property
    def way(self) -> str:
        """How it tells: `mail`, `webhook`, `command` or `apprise`."""
        return next(way for way in _WAYS if getattr(self, way))

    def flaws(self) -> Iterator[Violation]:
        ways = [way for way in _WAYS if getattr(self, way)]
        if len(ways) != 1:
            yield Violation(
                f"expected one of {', '.join(_WAYS)}; found {' and '.join(ways) or 'none'}", EXAMPLE
            )
        elif self.mail and "@" not in self.mail and "$" not in self.mail:
            yield Violation("expected an address with @", "write mail: me@example.org", ("mail",))
        elif self.webhook and not self.webhook.startswith(("http://", "https://", "$")):
            yield Violation("expected an address that begins with https://", "", ("webhook",))
        elif not self.smtp.startswith(("smtp://", "smtps://", "$")):
            yield Violation("expected smtp://HOST or smtps://USER:PASSWORD@HOST", "", ("smtp",))


_WAYS = ("mail", "webhook", "command", "apprise")
