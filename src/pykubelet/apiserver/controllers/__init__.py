"""The small loops that keep the cluster in order: each watches a few kinds, decides in plain functions, and writes."""
