"""gamps beside d3rlpy; train.py and judge.py run in an environment of their own."""
