"""What a model file computes step by step, with 8-bit integers where it says so (no torch)."""
