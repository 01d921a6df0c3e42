"""Every default of the package, one module per room; ROS parameters, YAML files and command lines derive from these."""
