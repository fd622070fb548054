"""The loops that keep the node true to what its sources ask for."""
