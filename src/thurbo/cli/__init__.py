"""The command line: `thurbo COMMAND`, a thin layer of words over the library.

Commands import what they need when they run, so `thurbo --help` loads neither JAX nor a dataframe library.
`app` is how it starts and ends, `learn`, `ask` and `show` are the commands, `tables` files in and out.
"""

from thurbo.cli import learn, ask, show  # isort: skip  (commands are listed in the order they are used)
from thurbo.cli.app import app, main

__all__ = ["app", "ask", "learn", "main", "show"]
