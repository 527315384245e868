"""Folders and zip files as people have them: how their images are sorted into domains, splits and classes."""
