"""What the nodes and the commands both do, without ROS: track, cut, place, learn, forecast the walk under way."""
