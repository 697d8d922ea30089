"""The solver: rows, master, certificate, solution."""
