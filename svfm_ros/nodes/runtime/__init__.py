"""What every node needs around its callbacks: parameters, lifetime, diagnostics, the description of the graph."""
