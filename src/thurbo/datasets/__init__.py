"""Example data.

Idea: a bundled survey with binary, ordinal, categorical and ranked answers, so that all examples can be run.
Guarantees frames with readable column names, and a schema with the type of each column.
"""

from thurbo.datasets.starwars import CHARACTERS, FILMS, load_starwars

__all__ = ["CHARACTERS", "FILMS", "load_starwars"]
