"""§3 From files and cells to rows: files, data types, schemas, and how they are detected. NumPy only, no JAX."""
