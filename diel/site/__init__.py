"""A site: where tasks run. A stage's resources must fit one of its pools."""

from diel.site.find import find_program as find_program
from diel.site.find import find_site as find_site
from diel.site.find import read_kept_site as read_kept_site
from diel.site.find import read_site as read_site
from diel.site.shape import Ask as Ask
from diel.site.shape import Shape as Shape
from diel.site.shape import Unplaceable as Unplaceable
from diel.site.shape import ask_of as ask_of
from diel.site.shape import cores_of as cores_of
from diel.site.shape import lacks as lacks
from diel.site.shape import launcher_words as launcher_words
from diel.site.shape import memory_of as memory_of
from diel.site.shape import nodes_of as nodes_of
from diel.site.shape import nodes_that_fit as nodes_that_fit
from diel.site.shape import rooms as rooms
from diel.site.shape import shape_of as shape_of
from diel.site.shape import shared_shape as shared_shape
from diel.site.shape import within as within
from diel.site.site import ControllerHome as ControllerHome
from diel.site.site import FileSystem as FileSystem
from diel.site.site import LocalDisk as LocalDisk
from diel.site.site import Pool as Pool
from diel.site.site import Site as Site
from diel.site.site import missing as missing
