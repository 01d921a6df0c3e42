"""The pose graph: sparse least squares over poses, robust against false loop closures."""
