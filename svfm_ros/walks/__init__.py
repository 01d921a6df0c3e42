"""Walks: cut from the trajectory, aligned to the house's frame, stored, and resampled for training."""
