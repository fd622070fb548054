"""Containers by any runtime that speaks CRI v1: containerd, CRI-O and others. Nothing here imports grpc before it is
needed: `factory.make` is the door."""
