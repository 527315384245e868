"""What protects the service from clients: limits on connections, requests and time."""
