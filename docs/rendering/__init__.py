"""Render pages from their sources: every result number on a page is computed from docs/results.

`engine` evaluates the expressions of a source, and `prose` finds numbers that were typed by hand.
The other modules hold the functions that expressions may call, one file per subject.
"""
