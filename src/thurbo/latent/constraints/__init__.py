"""§3 Evidence as inequalities: one file for each form of the domain Ω(e) = {x : b ≤ Ax ≤ c}, Eq. (5)."""

from thurbo.latent.constraints.base import Bounds, Constraint, Context, Gauge, JointRegion, Region
from thurbo.latent.constraints.box import Box, BoxConstraint, BoxRegion, Levels, SomeBoxes
from thurbo.latent.constraints.linear import Linear, LinearRegion
from thurbo.latent.constraints.order import OneOf, Order
from thurbo.latent.constraints.pairwise import Pairwise
from thurbo.latent.constraints.repeated_choice import RepeatedChoice

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
