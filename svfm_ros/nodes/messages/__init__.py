"""ROS messages from and to the types of ``svfm_ros.types``."""
