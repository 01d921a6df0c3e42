"""Pages that are served to a browser: the live page, and the page that names places. No ROS in here."""
