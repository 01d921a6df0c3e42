"""ROS 2 nodes: they convert messages, call the core and publish. The only folder that imports rclpy."""
