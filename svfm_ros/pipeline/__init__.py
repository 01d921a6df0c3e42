"""What the nodes and the commands both do, without ROS: track, align walks, learn, forecast the walk under way."""
