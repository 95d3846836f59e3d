"""What a task made: small JSON values, and artifacts (files, directories, arrays) with their digests."""

from diel.store.artifacts.artifact import Artifact, Artifacts, File, content, digest_of, files_of
from diel.store.artifacts.collect import Outputs, check_values, collect_files, collect_returned
from diel.store.artifacts.identity import FileChanged, ReadFiles, artifacts_in, differences, is_same, text_of
from diel.store.artifacts.values import MAX_VALUES, Values, collect_result
