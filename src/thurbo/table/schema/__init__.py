"""§3 for a whole table: the type of each column, inferred with reasons or written by hand."""
