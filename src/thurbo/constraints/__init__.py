"""§3 Evidence as inequalities: one file for each form of the domain Ω(e) = {x : b ≤ Ax ≤ c}, Eq. (5)."""

from thurbo.constraints.base import Bounds, Constraint, Context, Gauge, Region
from thurbo.constraints.box import Box, BoxConstraint, BoxRegion, Levels, SomeBoxes
from thurbo.constraints.joint import JointRegion
from thurbo.constraints.linear import Linear, LinearRegion
from thurbo.constraints.one_of import OneOf
from thurbo.constraints.order import Order
from thurbo.constraints.pairwise import Pairwise
from thurbo.constraints.repeated_choice import RepeatedChoice

__all__ = [
    "Bounds",
    "Box",
    "BoxConstraint",
    "BoxRegion",
    "Constraint",
    "Context",
    "Gauge",
    "JointRegion",
    "Levels",
    "Linear",
    "LinearRegion",
    "OneOf",
    "Order",
    "Pairwise",
    "Region",
    "RepeatedChoice",
    "SomeBoxes",
]
