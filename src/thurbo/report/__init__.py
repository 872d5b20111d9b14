"""The report: what a fitted model found, first as plain numbers and words, then as one self-contained page.

`summary(model, X)` is a dictionary that goes to JSON as it stands; `render(summary)` turns it into HTML.
Nothing in the page asks the network for anything.
"""

from thurbo.report.page import render
from thurbo.report.summary import summary

__all__ = ["render", "summary"]
