"""What a task made: small JSON values, and artifacts (files, directories, arrays) with their digests."""

from diel.artifacts.artifact import Artifact as Artifact
from diel.artifacts.artifact import Artifacts as Artifacts
from diel.artifacts.artifact import File as File
from diel.artifacts.artifact import content as content
from diel.artifacts.artifact import digest_of as digest_of
from diel.artifacts.artifact import files_of as files_of
from diel.artifacts.collect import check_values as check_values
from diel.artifacts.collect import collect_files as collect_files
from diel.artifacts.collect import collect_returned as collect_returned
from diel.artifacts.identity import FileChanged as FileChanged
from diel.artifacts.identity import ReadFiles as ReadFiles
from diel.artifacts.identity import artifacts_in as artifacts_in
from diel.artifacts.identity import differences as differences
from diel.artifacts.identity import is_same as is_same
from diel.artifacts.identity import text_of as text_of
from diel.artifacts.values import MAX_VALUES as MAX_VALUES
from diel.artifacts.values import Values as Values
from diel.artifacts.values import collect_result as collect_result
