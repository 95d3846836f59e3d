"""A page as one file that needs no network: its style, its scripts and its data are in it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from diel.errors import DielError
from diel.files import put
from diel.page.html import Charts, panel_html
from diel.page.panel import Panel
from diel.page.panels import Public, panels_of
from diel.page.plot import SERIES, STATES
from diel.page.seen import Seen


def page_data(seen: Seen) -> dict[str, Any]:
    """A page as JSON: what a page that is open takes over, panel by panel, where it changed."""
    return {
        "run": Public(seen).text(seen.paths.run_id) if seen.public else seen.paths.run_id,
        "state": "damaged" if seen.readable is None else seen.readable.state.value,
        "panels": [panel_data(panel) for panel in panels_of(seen)],
    }


def panel_data(panel: Panel) -> dict[str, Any]:
    """A panel as JSON, with a digest that tells whether it changed."""
    charts: Charts = {}
    html = panel_html(panel, charts)
    digest = hashlib.sha256(json.dumps([html, charts]).encode()).hexdigest()[:16]
    return {"name": panel.name, "title": panel.title, "html": html, "charts": charts, "digest": digest}


def page(seen: Seen, live: str = "") -> str:
    """The page of a run. With `live`, an address to fetch its data from anew, it follows the run."""
    return document(page_data(seen), live)


def document(data: Mapping[str, Any], live: str = "") -> str:
    """The file for the data of a page."""
    style, code, library = _style(), _asset("page.js"), script()
    panels = data["panels"]
    shown = {
        "live": live,
        "version": data.get("version", 0),
        "colours": SERIES,
        "digests": {panel["name"]: panel["digest"] for panel in panels},
        "charts": {key: spec for panel in panels for key, spec in panel["charts"].items()},
    }
    run, state = escape(data["run"]), escape(data["state"])
    links = "".join(f'<a href="#{escape(one["name"])}">{escape(one["title"])}</a>' for one in panels)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy(live)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">',
            f'<title>{run} {state}</title><link rel="icon" href="data:,">',
            f"<style>{style}</style></head><body>",
            '<a class="skip" href="#main">Skip to the panels</a>',
            f'<header><h1>{run}</h1> <span class="badge s-{state}" id="state">{state}</span>',
            f'<nav aria-label="Panels">{links}</nav></header>',
            f'<main id="main">{"".join(panel["html"] for panel in panels)}</main>',
            f'<script type="application/json" id="data">{_embedded(shown)}</script>',
            f"<script>{library}</script>",
            f"<script>{code}</script>",
            "</body></html>\n",
        ]
    )


def _embedded(value: object) -> str:
    """JSON in a script element: the one place where it is escaped for that."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def policy(live: str) -> str:
    """What the page may load: what is in it, by digest, and its own data."""
    style, code = _style(), " ".join(map(_digest, (script(), _asset("page.js"))))
    connect = " connect-src 'self';" if live else ""
    return (
        f"default-src 'none'; script-src {code}; style-src {_digest(style)}; img-src data:;{connect}"
        " base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


@cache
def _style() -> str:
    states = "".join(f".s-{name}{{--state:{colour}}}" for name, colour in STATES.items())
    return _asset("page.css") + states


def script() -> str:
    """The script. Bundling it takes one to two seconds, so it is kept in the user's cache.

    Raises DielError where the library is absent.
    """
    try:
        import vl_convert  # an extra
    except ImportError as error:
        missing = "a page needs vl-convert-python: pip install 'diel[report]'"
        raise DielError(f"{missing} (without it, `diel report` prints the report in Markdown)") from error
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "diel"
    kept = cache / f"vega-{vl_convert.get_vega_version()}-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        return kept.read_text("utf-8")
    made: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed").replace("</script", "<\\/script")
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        put(kept, made)
    return made
