"""Which processors and which memory a container has for itself, after upstream's CPU, memory and topology managers."""
