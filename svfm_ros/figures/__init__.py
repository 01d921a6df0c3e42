"""Pictures of maps, floor plans and forecasts, and films; only this room and ``experiments`` import matplotlib."""
