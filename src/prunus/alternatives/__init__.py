"""What a user could ship in place of one of our model files: trained, written and measured."""
