"""Pages from their sources: what a page says in numbers is computed from docs/results.

`engine` evaluates the expressions of a source, `prose` finds numbers that were typed by hand, and
the other modules hold what expressions may call, one file a subject.
"""
