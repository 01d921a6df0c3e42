"""Walks: cut from the trajectory, stored, placed in the house's frame, named by where they end."""
