"""Forecasters, questions and scores of the forecast benchmarks, and readers of public tracks."""
