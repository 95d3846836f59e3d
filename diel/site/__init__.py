"""A site: where tasks run. A stage's resources must fit one of its pools."""

from diel.site.find import find_program, find_site, read_kept_site, read_site
from diel.site.shape import (
    Ask,
    Shape,
    Unplaceable,
    ask_of,
    cores_of,
    lacks,
    launcher_words,
    memory_of,
    nodes_of,
    nodes_that_fit,
    rooms,
    shape_of,
    shared_shape,
    within,
)
from diel.site.site import ControllerHome, FileSystem, LocalDisk, Pool, Site, missing
