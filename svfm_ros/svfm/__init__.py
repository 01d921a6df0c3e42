"""Stochastic vector field mixtures: the model of the paper. The only place that imports torch."""
