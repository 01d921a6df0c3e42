"""Motion of the body that carries the LiDAR, measured by an IMU or by odometry, and checked against the scans."""
