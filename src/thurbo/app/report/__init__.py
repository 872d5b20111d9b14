"""The report on a fitted model: first a summary of plain values, then a self-contained HTML page.

`summary(model, X)` is a dictionary that JSON can store; `render(summary)` converts it to HTML; `write` does both and
tests the accuracy. The page loads nothing from the network.
"""

from thurbo.app.report.page import render, write
from thurbo.app.report.summary import summary
