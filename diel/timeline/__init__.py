"""When the attempts of a run took place, and where: read from the journal, and followed by offsets."""

from diel.timeline.shortcut import load_timeline, read_timeline
from diel.timeline.span import Lane, Span
from diel.timeline.timeline import ROW, StageTimes, Timeline

__all__ = ["ROW", "Lane", "Span", "StageTimes", "Timeline", "load_timeline", "read_timeline"]
