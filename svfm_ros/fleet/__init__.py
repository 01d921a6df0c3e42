"""Many homes, on Ray: each home through the same pipeline, the population prior over all of them, tables and a page."""
