"""What the wearer carries: a 2D LiDAR, an IMU, odometry; and the rays that the LiDAR casts."""
