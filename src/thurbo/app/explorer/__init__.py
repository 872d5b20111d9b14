"""A survey live in the browser: a map to select groups from, answers to pin, segments to name, respondents to fill in.

`Session` answers questions about one model and one table; `serve` puts it behind a small server on this machine.
"""

from thurbo.app.explorer.server import Server, serve
from thurbo.app.explorer.session import Session

__all__ = ["Server", "Session", "serve"]
