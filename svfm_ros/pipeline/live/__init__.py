"""What the live nodes do without ROS: queues, pacing, processes, forecasts of the walk under way, stored walks."""
