"""What the server tells those who operate it: numbers about requests, and a log of who did what."""
