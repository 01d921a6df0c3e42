"""ODE solvers for batches in which each row has its own step size."""
