"""ODE solvers: dopri5 with a step size per row, fixed-step Runge-Kutta 4 for training, torchdiffeq's methods."""
