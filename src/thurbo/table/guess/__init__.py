"""Rules that detect the type of a column from its cells, value labels and name, with a reason; NumPy only."""
