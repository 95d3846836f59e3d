"""What makes the points of a search or loop during its run, and what proposes trials.

What a package with a searcher of its own needs is imported from here.
"""

from diel.base.states import TrialState
from diel.controller.search.searcher import Searcher, Space
