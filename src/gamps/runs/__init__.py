"""Trainings that leave a run folder: reported, kept, resumed to the last bit.

A `TrainSpec` says what is to be done; `start` makes the folder of a new run and `resume` opens one,
and `Run.train` goes on to the end. `open_run` and `evaluate_run` look at what there is.
"""

from gamps.runs.search_training import SearchTraining
from gamps.runs.spec import TrainSpec
from gamps.runs.start import Run, resume, start
from gamps.runs.state import Training

__all__ = ["Run", "SearchTraining", "TrainSpec", "Training", "resume", "start"]
