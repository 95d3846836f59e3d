"""Why tasks were not tried: their stage was held or stopped, or the run was to stop at a failure."""

from __future__ import annotations

from diel.journal.history import History


def stopped_by(history: History, stage: str, rule: str) -> str:
    """What stopped a stage by a rule; for two of these the whole run stops because of one stage."""
    held = history.stage(stage).held
    if rule in ("fail_fast", "imports"):
        whole = (one.held[1] for one in history.stages.values() if one.held and one.held[0] == rule)
        return next(whole, "a task failed, and the run was to stop at that")
    return held[1] if held else "more of its tasks failed than were to"
