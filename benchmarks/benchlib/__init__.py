"""What several benchmarks share: comparators, scores, readers of public data sets, peers."""
