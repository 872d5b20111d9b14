"""A survey live in the browser: a map to select groups from, answers to pin, segments to name, respondents to fill in.

`Session` answers questions about one model and one table; `Server` is a small server of it on this machine.
"""

from thurbo.app.explorer.server import Server
from thurbo.app.explorer.session import Session
