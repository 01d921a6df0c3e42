"""Simulated homes: furnished houses, residents who walk in them, and the sensors that a wearer carries."""
