"""§3 Evidence as inequalities: one file for each form of the domain Ω(e) = {x : b ≤ Ax ≤ c}, Eq. (5)."""

from thurbo.latent.constraints.base import Constraint, Context, Gauge, Region
from thurbo.latent.constraints.box import Box, BoxRegion, Levels
from thurbo.latent.constraints.comparisons import Pairwise, RepeatedChoice
from thurbo.latent.constraints.linear import Linear
from thurbo.latent.constraints.order import OneOf, Order
