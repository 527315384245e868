"""From the body of a request to network inputs."""
