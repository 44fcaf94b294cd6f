"""What experiments, benchmarks and tests share: provenance, counts, defects, the ids of the paper."""
