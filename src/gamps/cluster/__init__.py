"""Work that survives process failures: one job over several processes, and sweeps of many jobs.

Ray, an optional extra, places processes on the nodes of a cluster and reports when one is gone; it
is imported only when something is launched. All progress is in files: a job continues from its last
checkpoint, and each task of a sweep is one result file that exists or not.
"""

from gamps.cluster.jobs import Status, job
from gamps.cluster.sweeps import planned, read_sweep, refuse_early, sweep
from gamps.runs.results import SweepTask

__all__ = ["Status", "SweepTask", "job", "planned", "read_sweep", "refuse_early", "sweep"]
