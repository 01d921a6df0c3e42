"""Every picture: maps, floor plans, forecasts, films; with ``experiments`` the only place that imports matplotlib."""
