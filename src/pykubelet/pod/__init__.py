"""Decisions about pods, pure: no clock, no socket, no file. What goes in is a value, and so is what comes out."""
