"""Forms: what queries, evaluation, baselines, segments and reports need from each type of answer.

Levels (and options), numbers (and bands), utilities (choices and orders). A form works in both layouts: the same sites
in every row, or lists of few sites out of many. NumPy only; predictive distributions are given by `Ask`.
"""

from thurbo.columns.forms.compared import TaskForm
from thurbo.columns.forms.form import Answers, Ask, Certainty, Form, Lines, Profile, Start, Trial
from thurbo.columns.forms.levels import LevelForm, OptionForm
from thurbo.columns.forms.number import BandForm, NumberForm
from thurbo.columns.forms.rounded import RoundedForm
from thurbo.columns.forms.utilities import ChoiceForm, OrderForm

__all__ = [
    "Answers",
    "Ask",
    "BandForm",
    "Certainty",
    "ChoiceForm",
    "Form",
    "LevelForm",
    "Lines",
    "NumberForm",
    "OptionForm",
    "OrderForm",
    "Profile",
    "RoundedForm",
    "Start",
    "TaskForm",
    "Trial",
]
