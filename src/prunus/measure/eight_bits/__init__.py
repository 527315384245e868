"""What an 8-bit model file computes with integers, and what that loses."""
