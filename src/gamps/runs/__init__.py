"""Trainings that write a run folder: reported, kept, resumed to the last bit.

A `TrainSpec` holds the settings; `start` makes the folder of a new run, `resume` opens an existing
one, and `Run.train` trains to the end. `open_run` and `evaluate_run` read a run folder.
"""

from gamps.runs.search_training import SearchTraining
from gamps.runs.spec import TrainSpec
from gamps.runs.start import Run, resume, start
from gamps.runs.state import Training

__all__ = ["Run", "SearchTraining", "TrainSpec", "Training", "resume", "start"]
