"""Domains and augmentation that are passed from Python."""
