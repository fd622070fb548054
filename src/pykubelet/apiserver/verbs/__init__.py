"""What can be done with objects, one module for each verb of the API."""
