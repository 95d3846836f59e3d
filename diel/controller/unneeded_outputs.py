"""Artifacts of a run that no task needs any longer: finds them, and deletes them while the run is kept."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from diel.base.paths import RunPaths
from diel.observe.results import RunReader
from diel.store.artifacts import files_of
from diel.store.journal.records import Made
from diel.store.journal.segment import SegmentWriter, worker_segment_name
from diel.tasks.artifact_gc import Place, Readers, delete, dropped_record, own_files, reading


@dataclass(frozen=True)
class UnneededOutput:
    """An output of a stage, and the results whose artifact all readers are done with."""

    place: Place
    records: dict[int, Made]

    @property
    def size(self) -> int:
        """Bytes, according to the records."""
        return sum(record["artifacts"][self.place[1]]["size"] for record in self.records.values())

    @property
    def files(self) -> int:
        return sum(len(files_of(record["artifacts"][self.place[1]])) for record in self.records.values())


def find_unneeded(run: RunReader) -> list[UnneededOutput]:
    """Return the outputs that stages read and no unfinished task needs; what nothing reads is a result."""
    links = list(reading(run.links))
    handed = {
        (link.edge.upstream, link.edge.output) for link in links if link.edge.upstream != link.edge.downstream
    }
    # A stage that reads its own last round is also a reader of what it hands to others.
    readers = Readers(link for link in links if (link.edge.upstream, link.edge.output) in handed)
    for stage in run.stages.values():
        readers.count_ended(stage)
    outputs = (UnneededOutput(place, dict(_records(run, readers, place))) for place in readers.links)
    return [output for output in outputs if output.records]


def _records(run: RunReader, readers: Readers, place: Place) -> Iterator[tuple[int, Made]]:
    name, output = place
    dropped = run.history.stage(name).dropped.get(output, ())
    for index, record in sorted(run.records(name).items()):
        if index in dropped or not readers.done_with(place, index):
            continue
        if own_files(record, name, output, run.paths.root) is not None:
            yield index, record


def drop(paths: RunPaths, run: RunReader, outputs: list[UnneededOutput]) -> tuple[int, int]:
    """Delete them, then record that in a segment of its own; return the numbers of files and bytes."""
    name = worker_segment_name(run.history.epoch, socket.gethostname(), os.getpid())
    whole = files = 0
    with closing(SegmentWriter(paths.journal / name)) as segment:
        for output in outputs:
            freed = {
                index: delete(record, *output.place, paths.root) for index, record in output.records.items()
            }
            gone = {index: size for index, size in freed.items() if size is not None}
            if gone:
                size = sum(gone.values())
                segment.append(dropped_record(output.place, gone, size))
                whole += size
                files += sum(
                    len(files_of(output.records[index]["artifacts"][output.place[1]])) for index in gone
                )
    return files, whole
