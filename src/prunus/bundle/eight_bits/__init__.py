"""What only 8-bit model files have: rules, checks, and activations as operations of their own."""
