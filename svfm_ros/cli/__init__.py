"""One module per ``svfm`` command; the only place that prints."""
