"""Work that outlives the processes it runs in: one job over several, and sweeps of many jobs.

Ray, an extra, places processes on the nodes of a cluster and says when one is gone; it is imported
when something is launched and nowhere else. What was done is in files: a job goes on from its last
checkpoint, and a task of a sweep is one result file that is there or not.
"""

from gamps.cluster.jobs import Status, job
from gamps.cluster.sweeps import planned, read_sweep, refuse_early, sweep
from gamps.runs.results import SweepTask

__all__ = ["Status", "SweepTask", "job", "planned", "read_sweep", "refuse_early", "sweep"]
