"""Where tables come from and go to.

Idea: one file, `frames`, knows dataframe libraries; everything else sees names and NumPy arrays.
Promises that importing this package imports no dataframe library.
"""

from thurbo.io.frames import Table, build, kind, replace, table

__all__ = ["Table", "build", "kind", "replace", "table"]
