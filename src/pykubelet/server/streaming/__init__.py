"""Into containers: exec, attach, port-forward."""
