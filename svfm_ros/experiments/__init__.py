"""The experiments of the paper, run by ``svfm reproduce``."""
