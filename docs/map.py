"""Writes docs/map.md: every file of diel, room by room, each with the first line of its docstring.

python docs/map.py          writes it
python docs/map.py --check  exit code 1 where it is not as the sources are
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAP = ROOT / "docs" / "map.md"
HEAD = """# The map

Every file of the package, room by room. `make map` writes this page from the first line of each
file's docstring; a test checks it. [The architecture](architecture.md) says how they belong together.
"""


def first_line(path: Path) -> str:
    """The first sentence or line of a file's docstring; an error where there is none."""
    text = ast.get_docstring(ast.parse(path.read_bytes()))
    if not text:
        raise SystemExit(f"{path.relative_to(ROOT)} has no docstring")
    return text.split("\n\n")[0].replace("\n", " ").replace("|", "\\|").strip()


def rooms() -> dict[Path, list[Path]]:
    """The files of each package, packages and files in order."""
    files = [path for path in sorted((ROOT / "diel").rglob("*.py")) if "starter" not in path.parts]
    packages = sorted({path.parent for path in files})
    return {package: [path for path in files if path.parent == package] for package in packages}


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for package, files in rooms().items():
        parts.append(f"\n## `{package.relative_to(ROOT)}/`\n\n")
        parts.append(first_line(package / "__init__.py") + "\n\n| file | |\n|---|---|\n")
        parts += [f"| `{path.name}` | {first_line(path)} |\n" for path in files if path.name != "__init__.py"]
    return "".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(MAP.read_text("utf-8") != page())
    MAP.write_text(page(), "utf-8")
