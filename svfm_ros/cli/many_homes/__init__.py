"""Commands over many homes; they need Ray."""
