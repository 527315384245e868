"""The model file that is deployed, read and written without torch."""
