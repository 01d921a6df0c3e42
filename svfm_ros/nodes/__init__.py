"""ROS 2 nodes: they convert messages, call the core and publish. The only place that imports rclpy."""
