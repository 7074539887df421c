"""The loop for logs larger than memory: the same parts, one shard of trajectories at a time.

An iteration needs only sums over trajectories: the statistics of the fit, the gradient, the weights
of an effective sample size. Each shard adds its own, on the scale of its own largest ratio, and
`add` adds sums of different scales. One iteration reads the log once for every pass of the fit and
once for the gradient.
"""

from gamps.search.streaming.loop import Parts, check, run, step
from gamps.search.streaming.sums import Sums, add

__all__ = ["Parts", "Sums", "add", "check", "run", "step"]
