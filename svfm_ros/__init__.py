"""Where will they walk next? LiDAR-only SLAM and stochastic vector field mixtures, for ROS 2."""
