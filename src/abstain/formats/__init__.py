"""Prediction files of any common kind, read safely: no pickle, bounded memory, one clear line when bad."""

from abstain._outputs import replacing
from abstain.formats import (
    file_evaluation as file_evaluation,  # which registers paths and tables with `evaluate`
)
from abstain.formats.columns import Column, Source, UncertainError, Words
from abstain.formats.logs import Log, Rules
from abstain.formats.predictions import Predictions
from abstain.formats.read_files import read_log, read_predictions
from abstain.formats.readers import FORMATS, open_source
from abstain.formats.roles import ROLES
from abstain.formats.safety import Limits
from abstain.formats.writing import WRITABLE, write_predictions

__all__ = ["FORMATS", "ROLES", "WRITABLE", "Column", "Limits", "Log", "Predictions", "Rules", "Source"]
__all__ += ["UncertainError", "Words", "open_source", "read_log", "read_predictions"]
__all__ += ["replacing", "write_predictions"]
