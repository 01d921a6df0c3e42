"""Scans in, map and trajectory out: 2D SLAM without odometry, in numpy and numba."""
