"""A result that is printed as two columns: names and texts."""

from __future__ import annotations

from html import escape


class Printed:
    """Text and HTML of a result from its `_lines`."""

    def _lines(self) -> list[tuple[str, str]]:
        raise NotImplementedError

    def __str__(self) -> str:
        lines = self._lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name.ljust(width)}  {text}" for name, text in lines)

    def _repr_html_(self) -> str:
        body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._lines())
        return f"<table><tbody>{body}</tbody></table>"
