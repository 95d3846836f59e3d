"""Checks of what stages publish as hyperparameters."""

from __future__ import annotations

from diel.check.flaws import Check
from diel.check.outputs import DECLARE, known_outputs
from diel.errors import did_you_mean


def check_published(found: Check) -> None:
    """Checks that what stages publish are values that they make, if that is known."""
    for name, stage in found.workflow.stages.items():
        known = known_outputs(found, name)
        for label, output in stage.publishes.items() if not found.lacks_module(name) else ():
            key = ("stages", name, "publishes", label)
            if output in stage.outputs and stage.outputs[output].form not in (None, "value"):
                what = "stream" if stage.outputs[output].stream is not None else "file"
                message = f"'{output}' is a {what}, and a hyperparameter has a value"
                found.add(key, message, DECLARE.format(output))
            elif known is not None and output not in known:
                hint = did_you_mean(output, known) or (f"it makes: {', '.join(known)}" if known else "")
                found.add(key, f"'{name}' makes no value '{output}'", hint)
