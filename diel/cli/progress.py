"""Driving a controller in the foreground, and showing how far it is."""

from __future__ import annotations

import click

from diel.controller.controller import Controller
from diel.states import RunState

EXIT_CODES = {RunState.SUCCEEDED: 0, RunState.FAILED: 1, RunState.CANCELLED: 3, RunState.INTERRUPTED: 130}


def drive(controller: Controller, *, quiet: bool) -> int:
    """Runs a controller to its end; returns the exit code."""
    try:
        state = controller.drive(lambda history: None)
    except KeyboardInterrupt:
        state = RunState.INTERRUPTED
    click.echo(f"{controller.paths.run_id} {state}")
    return EXIT_CODES[state]
