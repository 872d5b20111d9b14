"""The command line: `thurbo COMMAND`, a thin layer over the library.

Commands import what they need when they run, so `thurbo --help` loads neither JAX nor a dataframe library.
`app` starts and ends the program, `commands` holds the commands, `tables` reads and writes files.
"""

from thurbo.app.cli import commands
from thurbo.app.cli.app import app, main
