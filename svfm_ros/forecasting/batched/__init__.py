"""What is asked for one walker or many, and forecasts of many at once in torch."""
