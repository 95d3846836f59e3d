"""Vega, Vega-Lite and Vega-Embed as one script, taken from an installed library: nothing is fetched."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from diel.errors import DielError
from diel.files import put


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
