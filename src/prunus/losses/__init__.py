"""Losses on switches in closed form: masks in, value and gradient out."""
