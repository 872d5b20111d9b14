"""§3 Evidence: the constraints of rows on their sites, as arrays `[row, slot]` on the device."""

from thurbo.evidence.evidence import Constraint, Evidence, Unobserved

__all__ = ["Constraint", "Evidence", "Unobserved"]
