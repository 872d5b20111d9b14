"""Forms: what queries, evaluation, baselines, segments and reports need from each type of answer.

Levels (and options), numbers (and bands), utilities (choices and orders). A form works in both layouts: the same sites
in every row, or lists of few sites out of many. NumPy only; predictive distributions are given by `Ask`.
"""

from thurbo.table.columns.forms.form import Answers, Ask, Certainty, Form, Lines, Profile, Start, Trial
