"""Trainings that leave a run folder: reported, kept, resumed to the last bit.

`words` are what a user says of a training, and `setup` makes it of them; `train` and `resume` run
it; `folder` is what stays.
"""

from gamps.training.climbing import Climbing
from gamps.training.loop import resume, train
from gamps.training.setup import build
from gamps.training.types import Training, arrays_of, restored
from gamps.training.words import Words

__all__ = ["Climbing", "Training", "Words", "arrays_of", "build", "restored", "resume", "train"]
