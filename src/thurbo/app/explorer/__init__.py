"""A survey live in the browser: a map to select groups from, answers to pin, segments to name, respondents to fill in.

`Session` answers questions about one model and one table; `app.server.Server` puts it on this machine.
"""

from thurbo.app.explorer.session import Session
from thurbo.app.server import Server

__all__ = ["Server", "Session"]
