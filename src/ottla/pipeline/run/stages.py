"""What a run of a job passes until all its queries run. No Spark here: whoever shows a run that has
not got there yet knows what is still to come."""

from __future__ import annotations

from typing import Literal, get_args

Stage = Literal["Java", "Spark session", "first query", "first result", "all queries"]
"""Java answers; Spark is ready to compute; the query that the job names first has begun to plan its
first batch; that batch has ended, and its results are there; the other queries run as well."""

STAGES: tuple[Stage, ...] = get_args(Stage)
"""In the order in which they pass, each once. One may be passed over: without records there is no
first result, a Spark that runs elsewhere has no Java to start, and a large first batch is overtaken
by the other queries."""
