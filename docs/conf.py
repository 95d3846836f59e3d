"""The site that `make docs` builds of these pages: Sphinx, with MyST for Markdown and the theme Furo.

The pages stay plain Markdown, as a forge shows them. The site begins with the README, and its navigation
is the list of pages in index.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "diel"
copyright = "The diel authors"  # the name that Sphinx looks for
root_doc = "index"
extensions = ["myst_parser"]
exclude_patterns = ["*.py"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "diel"
html_show_sphinx = False
html_copy_source = False

_PICTURE = re.compile(
    r'<picture>\s*<source [^>]*srcset="(.*?)">\s*<img alt="(.*?)" src="(.*?)"[^>]*>\s*</picture>'
)


def setup(app: Sphinx) -> None:
    app.connect("source-read", _prepare)


def _prepare(app: Sphinx, page: str, text: list[str]) -> None:
    trees = ""
    if page == "decisions":
        trees = _directive("toctree", "", ":maxdepth: 1", ":glob:", "", "decisions/*")
    if page == root_doc:
        for section in re.split(r"^## ", text[0], flags=re.MULTILINE)[1:]:
            caption, listed = (
                section.partition("\n")[0],
                re.findall(r"^- \[.*?\]\((\S+)\.md\)", section, re.MULTILINE),
            )
            trees += _directive("toctree", "", f":caption: {caption}", ":hidden:", "", *listed)
        text[0] = _from_here((Path(app.srcdir).parent / "README.md").read_text("utf-8"))
    text[0] = _PICTURE.sub(_by_theme, text[0]) + trees


def _from_here(readme: str) -> str:
    """Its links as they are from docs/; what is outside is a file to load down."""
    readme = re.sub(r"\]\((?!http|#|docs/)", "](path:../", readme)
    return re.sub(r'(\]\(|(?:src|srcset)=")docs/', r"\1", readme)


def _by_theme(found: re.Match[str]) -> str:
    dark, told, light = found.groups()
    return "".join(
        _directive("image", path, f":class: only-{theme}", f":alt: {told}")
        for theme, path in (("light", light), ("dark", dark))
    )


def _directive(name: str, argument: str, *lines: str) -> str:
    return "\n".join(["", "", f"```{{{name}}} {argument}", *lines, "```", ""])
