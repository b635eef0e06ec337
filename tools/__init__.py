"""What tests and benchmarks need and users do not."""
