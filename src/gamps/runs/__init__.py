"""Trainings that leave a run folder: reported, kept, resumed to the last bit.

`words` are what a user says of a training, and `setup` makes it of them; `train` and `resume` run
it; `folder` is what stays.
"""

from gamps.runs.search_training import Climbing
from gamps.runs.loop import resume, train
from gamps.runs.build import build
from gamps.runs.state import Training, arrays_of, restored
from gamps.runs.spec import Words

__all__ = ["Climbing", "Training", "Words", "arrays_of", "build", "restored", "resume", "train"]
