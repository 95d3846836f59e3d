"""Explanations of a run: what failed, what waits for what, what was computed again and why."""

from diel.explain.attempts import explain_block as explain_block
from diel.explain.run import explain_run as explain_run
from diel.explain.task import explain_task as explain_task
from diel.explain.text import Explanation as Explanation
