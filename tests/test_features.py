"""A feature lies in the files of its name; others name it in one typed field and in calls of one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DIEL = Path(__file__).parents[1] / "diel"

# By feature: the word for it, the files and rooms of its own, and the most lines of others that may name it.
# A ceiling is what was reached, or a few above; it may only fall.
FEATURES = {
    "demand": (r"(?<!on )demand(?!ed)", {"demand"}, 59),
    "surrogate": (r"surrogate(?!escape)", {"surrogate"}, 52),
    "service": (r"(?<!No )services?", {"service", "services"}, 148),
    "stream": (
        r"(?<![a-z])(?<!SOCK_)(?<!octet-)(?<!end of )streams?(?!RequestHandler)",
        {"stream", "streams"},
        100,
    ),
    "stopping": (
        r"\.stopping import|self\._stopping(?=\.| is|: S)|(?<!_)max_failures|fail_fast|(ask|is)_anyway",
        {"stopping"},
        59,
    ),
    "staging": (r"staging|staged", {"staging"}, 64),
    "publishing": (r"(?<!date)publish", {"publishing"}, 45),
    "extraction": (r"extract", {"extraction"}, 9),
    "rendering": (r"rendered|rendering", {"rendering"}, 51),
    # Not the command of that name, which writes a run for other tools: that is the next one.
    "export": (r"exporter|exported|[._\"]exports?\b(?!\": \"Write|\", \"path)|Export[sF]", {"export"}, 72),
    "takeout": (r"takeout|take_out", {"takeout"}, 3),
    "headline": (r"headlines?", {"headline"}, 15),
    "units": (r"conversions?", {"units"}, 14),
    "formats": (r"diel\.formats", {"formats"}, 10),
    "environment": (
        r"(?<!virtual )(?<!own )(?<!')\benvironments?\b(?! variable|\()",
        {"environment", "environments"},
        130,
    ),
    "notify": (r"(?<!@)notif(?!y-send)|notices?", {"notify"}, 60),
    "gang": (r"gangs?", {"gang", "gangs"}, 26),
    "launcher": (r"\blaunches\b|AT_LAUNCHER|(with|check)_launcher|misplaced", {"launcher"}, 32),
    "usage": (r"\.usage\b|\"usage\"|usage import|_usage\b|\busage:", {"usage"}, 62),
    "sizing": (r"\bsizing\b|sized_by|(apply|explain)_sizes", {"sizing"}, 20),
    "include": (
        r"(?<!#)\binclude[ds]?\b",
        {"include", "extends", "part", "composed", "packaged", "rename"},
        54,
    ),
}


def named(word: str, own: set[str]) -> list[str]:
    """The places that name a feature outside its own files: `controller/stages.py:12: text`."""
    wanted = re.compile(word, re.IGNORECASE)
    found = []
    for path in sorted(DIEL.rglob("*.py")):
        place = path.relative_to(DIEL)
        if own & {*place.parent.parts, place.stem} or str(place) == "spec/__init__.py":
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        found += [f"{place}:{n}: {line.strip()}" for n, line in enumerate(lines, 1) if wanted.search(line)]
    return found


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_is_named_little_outside_its_own_files(feature: str) -> None:
    word, own, most = FEATURES[feature]
    places = named(word, own)
    assert len(places) <= most, f"{feature}: {len(places)} lines, {most} may be\n" + "\n".join(places)
