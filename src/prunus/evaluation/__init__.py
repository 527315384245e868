"""Runs and model files, opened to be measured."""
