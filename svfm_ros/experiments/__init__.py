"""The paper's experiments and the comparisons; all drawing with matplotlib lives here."""
