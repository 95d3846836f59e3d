"""What a task made: small JSON values, and artifacts (files, directories, arrays) with their digests."""

from diel.artifacts.artifact import Artifact, Artifacts, content, digest_of, files_of
from diel.artifacts.collect import check_values, collect_files, collect_returned
from diel.artifacts.values import MAX_VALUES, Values, collect_result

__all__ = [
    "MAX_VALUES",
    "Artifact",
    "Artifacts",
    "Values",
    "check_values",
    "collect_files",
    "collect_result",
    "collect_returned",
    "content",
    "digest_of",
    "files_of",
]
