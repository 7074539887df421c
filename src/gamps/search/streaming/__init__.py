"""The loop over logs larger than memory: the same parts, a shard of trajectories at a time.

Everything that an iteration needs of a log is a sum over trajectories: the statistics of the fit,
the gradient, the weights of an effective sample size. Each shard adds its own, on the scale of its
own largest ratio, and sums of different scales are added by `add`. One iteration reads the log once
for every pass of the fit and once for the gradient.
"""

from gamps.search.streaming.loop import Parts, check, run, step
from gamps.search.streaming.sums import Sums, add

__all__ = ["Parts", "Sums", "add", "check", "run", "step"]
