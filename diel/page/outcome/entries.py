"""The panels of what came of a run, in their order."""

from __future__ import annotations

from diel.page.outcome.artifact import ENTRY as FILES
from diel.page.outcome.curve import ENTRY as REPORTED
from diel.page.outcome.failure import ENTRY as FAILED
from diel.page.outcome.hyperparameter import ENTRY as SET
from diel.page.outcome.loop import ENTRY as LOOPED
from diel.page.outcome.provenance import ENTRY as ORIGIN
from diel.page.outcome.result import ENTRY as FOUND
from diel.page.outcome.search import ENTRY as SEARCHED
from diel.page.outcome.service import ENTRY as SERVED
from diel.page.outcome.stream import ENTRY as FLOWED
from diel.page.outcome.surrogate import ENTRY as ASKED

OUTCOMES = (FAILED, SEARCHED, LOOPED, ASKED, FLOWED, SERVED, FOUND, REPORTED, FILES, SET, ORIGIN)
