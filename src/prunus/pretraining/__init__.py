"""Trains a backbone from a folder of classes."""
