"""What passes are made of: patterns, new instructions, clones, effects."""
