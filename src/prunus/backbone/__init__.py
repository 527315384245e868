"""Pretrained networks: images in, one feature vector per image out."""
