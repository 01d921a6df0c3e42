"""Recognise where the sensor was before: submaps, loop-closure candidates, relocalisation."""
