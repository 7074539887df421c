"""Trainings that leave a run folder: reported, kept, resumed to the last bit.

`setup` turns a user's words into a training; `train` and `resume` run it; `folder` is what stays.
"""

from gamps.training.climbing import Climbing
from gamps.training.loop import resume, train
from gamps.training.setup import Words, build
from gamps.training.types import Training, arrays_of, restored

__all__ = ["Climbing", "Training", "Words", "arrays_of", "build", "restored", "resume", "train"]
