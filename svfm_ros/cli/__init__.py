"""One module per ``svfm`` command; the only modules that print."""
