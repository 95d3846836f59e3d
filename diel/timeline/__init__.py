"""When the attempts of a run took place, and where: read from the journal, and followed by offsets."""

from diel.timeline.timeline import ROW, Lane, Span, StageTimes, Timeline, load_timeline, read_timeline

__all__ = ["ROW", "Lane", "Span", "StageTimes", "Timeline", "load_timeline", "read_timeline"]
