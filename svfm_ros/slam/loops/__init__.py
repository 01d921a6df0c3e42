"""Loop closure: submaps, candidates, verification, relocalisation."""
