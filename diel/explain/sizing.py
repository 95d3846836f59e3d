"""What tasks of a stage should ask for, by what they used, in lines."""

from __future__ import annotations

from diel.explain.text import Explanation
from diel.results import Recorded
from diel.results.sizing import advise


def explain_sizes(run: Recorded, stage: str) -> Explanation:
    """Without lines where nothing was measured."""
    found = advise(run, stage)
    document = {"advice": [one.document() for one in found]}
    if not found:
        return Explanation(document)
    head = f"{stage} could ask for (`diel run FILE --sized-by {run.paths.run_id}` does)"
    return Explanation(document, [head, *(f"    {one}" for one in found)])
