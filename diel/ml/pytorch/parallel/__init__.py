"""Training in PyTorch over MPI ranks: data, pipeline and tensor parallel, in any product.

`from diel.ml.pytorch import parallel` in a module's file; `training.parallel` shows how the pieces fit.
"""

from diel.ml.pytorch.parallel.feed import Feed as Feed
from diel.ml.pytorch.parallel.feed import Samples as Samples
from diel.ml.pytorch.parallel.feed import sharded as sharded
from diel.ml.pytorch.parallel.feed import shuffled as shuffled
from diel.ml.pytorch.parallel.feed import tensor as tensor
from diel.ml.pytorch.parallel.networks import build as build
from diel.ml.pytorch.parallel.placed import Mesh as Mesh
from diel.ml.pytorch.parallel.placed import Placed as Placed
from diel.ml.pytorch.parallel.placed import Ranks as Ranks
from diel.ml.pytorch.parallel.placed import Scaler as Scaler
from diel.ml.pytorch.parallel.placed import Ways as Ways
from diel.ml.pytorch.parallel.placed import joined as joined
from diel.ml.pytorch.parallel.placed import type_of as type_of
from diel.ml.pytorch.parallel.training import train as train
