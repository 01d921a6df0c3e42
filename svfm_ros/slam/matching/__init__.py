"""Match a scan against a map: correlative search, point-to-line refinement, covariance."""
