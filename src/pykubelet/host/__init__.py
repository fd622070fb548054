"""This machine: its folders, mounts and volumes."""
