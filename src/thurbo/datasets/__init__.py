"""Tables to try thurbo on.

Idea: one bundled survey with binary, ordinal, ranked and banded answers; figures in the docs can be rerun.
Promises frames with readable names and a schema that says what each column is.
"""

from thurbo.datasets.starwars import CHARACTERS, FILMS, load_starwars

__all__ = ["CHARACTERS", "FILMS", "load_starwars"]
