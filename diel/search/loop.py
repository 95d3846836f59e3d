"""A loop while its run goes on: after each round, whether there is another one."""

from __future__ import annotations

from diel.expressions import ExpressionError
from diel.journal.axis_history import Context, Round
from diel.search.decider import Decider, Unjudged
from diel.tasks.stage_run import StageRun


class Looping(Decider):
    """Opens the next round as soon as the values that `until` reads are there, and it does not hold."""

    def _begin(self, context: Context) -> None:
        if context not in self.axis.history.courses:
            self._begin_course(context)
        course = self._course(context)
        if course.rounds and not course.over:
            self._go_on(context, course.rounds[-1])
        else:
            self._open(context, len(course.rounds))
        self._judge(context)

    def _note(self, context: Context, point: int, stage: StageRun, index: int) -> None:
        if stage.name in self.axis.judge.stages:
            self._judge(context)

    def _judge(self, context: Context) -> None:
        """Judges the present round where it can be; where a run is resumed, those after it too."""
        course = self._course(context)
        while not course.over and self._is_judged(context, len(course.rounds)):
            self._judge_round(context, len(course.rounds))

    def _judge_round(self, context: Context, number: int) -> None:
        bad = self._bad(context, number)
        lost = [f"{stage.name}/{index}" for stage, index in bad if index not in stage.omitted]
        if lost:
            why = f"{', '.join(lost)} has no result, by which round {number} would be judged"
            self._close(context, number + 1, why, failed=True)
            return
        try:
            values = {} if bad else self._read_by_until(context, number)
            holds = not bad and self._holds(context, number, values)
        except (Unjudged, ExpressionError) as error:
            self._close(context, number + 1, f"`until` in round {number}: {error}", failed=True)
            return
        self._ledger.append(
            {"event": "round", **self._key(context), "number": number, "holds": holds, "values": values}
        )
        self._go_on(context, self._course(context).rounds[number])

    def _go_on(self, context: Context, judged: Round) -> None:
        """What follows a round: another one, or the end, which a controller may have been killed before."""
        if judged.holds:
            self._close(context, judged.number + 1, "until")
        elif judged.number + 1 == self.axis.size:
            self._close(context, judged.number + 1, "max")
        else:
            self._open(context, judged.number + 1)
