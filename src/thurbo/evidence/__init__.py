"""§3 Evidence: what rows say about their sites, as arrays `[row, slot]` on the device."""

from thurbo.evidence.evidence import Constraint, Evidence, Unobserved

__all__ = ["Constraint", "Evidence", "Unobserved"]
