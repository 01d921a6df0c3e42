"""Lay a scan onto a map: correlative search, point-to-line refinement, covariance."""
