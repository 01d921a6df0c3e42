"""A furnished house, a walker, and a low-cost LiDAR worn on a swaying body."""
