"""The report on a fitted model: first a summary of plain values, then a self-contained HTML page.

`summary(model, X)` is a dictionary that JSON can store; `render(summary)` converts it to HTML.
The page loads nothing from the network.
"""

from thurbo.report.page import render
from thurbo.report.summary import summary

__all__ = ["render", "summary"]
