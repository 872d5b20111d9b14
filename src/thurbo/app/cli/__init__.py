"""The command line: `thurbo COMMAND`, a thin layer over the library.

Commands import what they need when they run, so `thurbo --help` loads neither JAX nor a dataframe library.
`app` starts and ends the program, `learn`, `ask`, `show` and `explore` hold the commands, `tables` reads and writes
files.
"""

from thurbo.app.cli import learn, ask, show  # isort: skip  (commands are listed in the order they are used)
from thurbo.app.cli.app import app, main

__all__ = ["app", "ask", "learn", "main", "show"]
