"""The controllers that keep pods running: one file for each kind, and `*_rules` for what they decide, which is pure."""
