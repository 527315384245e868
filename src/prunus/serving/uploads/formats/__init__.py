"""What single image formats need before and while they are decoded."""
