"""The public names: `__init__.py` reads this file, and imports a name when it is first used."""

from seq2attn.api import check_attention as check_attention
from seq2attn.api import compare as compare
from seq2attn.api import evaluate as evaluate
from seq2attn.api import load as load
from seq2attn.api import train as train
from seq2attn.comparison.results import Comparison as Comparison
from seq2attn.data.tasks import Solution as Solution
from seq2attn.data.tasks import Task as Task
from seq2attn.data.tasks.strings import StringTask as StringTask
from seq2attn.data.vocabulary import Vocabulary as Vocabulary
from seq2attn.errors import Seq2AttnError as Seq2AttnError
from seq2attn.inference.answer import Answer as Answer
from seq2attn.inference.answer import Cache as Cache
from seq2attn.inference.answer import PatchMap as PatchMap
from seq2attn.inference.trained_model import TrainedModel as TrainedModel
from seq2attn.inference.trained_model import patch_map as patch_map
from seq2attn.model.cells import Cell as Cell
from seq2attn.model.decoder import Decoder as Decoder
from seq2attn.model.encoder import Encoded as Encoded
from seq2attn.model.encoder import Encoder as Encoder
from seq2attn.model.encoder import InitialState as InitialState
from seq2attn.model.histories import AttentionStep as AttentionStep
from seq2attn.model.histories import History as History
from seq2attn.model.interface import Loss as Loss
from seq2attn.model.normalisers import Normaliser as Normaliser
from seq2attn.model.normalisers import View as View
from seq2attn.model.normalisers import Window as Window
from seq2attn.model.points import At as At
from seq2attn.model.points import Point as Point
from seq2attn.model.points import hooked as hooked
from seq2attn.model.scores import Score as Score
from seq2attn.parts import register as register
from seq2attn.results.evaluation import Evaluation as Evaluation
from seq2attn.runs.run import Run as Run
from seq2attn.training.session import NewModel as NewModel
from seq2attn.training.session import new_model as new_model

__version__: str
