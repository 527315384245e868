"""Results within a domain: class by class, and the images that are classified wrongly."""
